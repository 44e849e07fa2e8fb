"""The name, summary, table row and template variables of a kernel of `mixed_gemm`."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import MMA_SYNC, WGMMA
from tilewright.configurations.shared import Memory, flag
from tilewright.configurations.sources import memory_variables, named, spelt, with_launch
from tilewright.families.mixed_gemm import rules
from tilewright.families.mixed_gemm.config import (
    MixedGemmConfig,
    MixedGemmFacts,
    has_40_columns,
    is_gated,
    type_of_d,
)
from tilewright.families.mixed_gemm.memory import PIECE, QUICK_COLUMNS, blocks_of_sm, consumers, memory
from tilewright.families.mixed_gemm.problem import FORMATS

RULES = rules.RULES
HEADERS = {
    ("wgmma", False): ("mixed_gemm", "quick_int4_gemm"),
    ("balanced", False): ("balanced", "quick_int4_balanced"),
    ("wgmma", True): ("gated_gemm", "quick_int4_gated_gemm"),
    ("balanced", True): ("gated_balanced", "quick_int4_gated_balanced"),
}
"""Headers by mainloop, and whether kernels are gated: of kernels, and of those that decode INT4 quickly."""
_EARLY = '\n#include "tilewright/mixed_gemm/early.hpp"'
SCHEDULES = {
    "at_will": {"own_loop": "", "opened": "", "closed": ""},
    "early": {"own_loop": _EARLY, "opened": "mixed_gemm::Early<", "closed": ">"},
    "in_turn": {"own_loop": _EARLY, "opened": "mixed_gemm::InTurn<", "closed": ">"},
}
"""Variables of the template by schedule: a header, and what stands around the kernel's type."""
LOOPS = {"at_will": "", "early": ", loaded a stage ahead", "in_turn": ", multiplied in turn"}
_SUM = "alpha * sum over k of A[m,k] W[n,k] + bias[n]"
GATED = f"D[m,n/2] = silu(gate) * up, the halves of {_SUM}"
ACTIVATED = f"D[m,n] = activation({_SUM})"
PLAIN = {"wgmma": ACTIVATED, "stream": ACTIVATED, "balanced": f"D[m,n] = {_SUM}"}
"""What kernels compute that are not gated, by their mainloop."""


def template(config: MixedGemmConfig) -> str:
    """The template that a kernel is rendered from."""
    name = "kernel" if config.mainloop == "wgmma" else config.mainloop
    return f"mixed_gemm/{name}.cu.j2"


def kernel_name(config: MixedGemmConfig) -> str:
    """See `named`."""
    return named(
        "mixed_gemm", config.arch, config.a, config.weight_format,
        flag("f32", config.d == "f32"), config.tile,
        flag(config.mainloop, config.mainloop != "wgmma"), flag(f"{config.warps}warps", config.warps != 8),
        flag(f"{config.k_groups}kgroups", config.k_groups > 1),
        flag(config.schedule, config.schedule != "at_will"),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
        flag(config.activation, is_gated(config)),
    )  # fmt: skip


def format_type(config: MixedGemmConfig) -> str:
    """The format's policy in C++ (mixed_gemm/decode.hpp, decode8.hpp)."""
    format, group = FORMATS[config.weight_format]
    element = f"sm90::{config.a.capitalize()}"
    if format == "mxfp4":
        return "Mxfp4"
    if format == "nvfp4":
        return f"Nvfp4<{element}>"
    if format in ("int8", "e4m3"):
        return f"{format.capitalize()}<{element}>"
    return f"Int4<{element}, {group}, {str(format == 'int4_zp').lower()}>"


def schedule_text(config: MixedGemmConfig) -> str:
    """How the work is done, in words."""
    words = "weights decoded to registers, operands swapped, clusters and splits of k at run time"
    if config.mainloop == "stream":
        words = f"{config.warps} warps divide k and load for themselves, splits of k at run time"
    if config.mainloop == "balanced":
        words = "weights decoded to registers, operands swapped, a cluster's stages of k divided evenly"
    words += LOOPS[config.schedule]
    return with_launch(words, config)


def summary(config: MixedGemmConfig) -> str:
    """One line for lists."""
    return summary_of(config, memory(config), schedule_text(config))


def summary_of(config: MixedGemmConfig, memory: Memory, schedule: str) -> str:
    """One line about a kernel with this shared memory and schedule."""
    types = f"{config.a} x {config.weight_format} -> {type_of_d(config)}"
    return f"{types}, tile {config.tile}, {memory.stages} stages, {schedule}"


def facts(config: MixedGemmConfig) -> MixedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    stream = config.mainloop == "stream"
    return {
        "stages": stages,
        "smem_bytes": total,
        "threads": 32 * config.warps if stream else 128 * (consumers(config) + 1),
        "splits": True,
        "alignment": {"a": 8, "b": 1, "c": 1, "d": 8 if config.mainloop == "balanced" else 1},
    }


def build(config: MixedGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    core = MMA_SYNC if config.mainloop == "stream" else WGMMA
    return {"arch": config.arch, "defines": [], "instructions": [core.opcodes["half"].name]}


def variables(config: MixedGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    own = {"header": header(config)}
    if is_gated(config):
        own |= {"formula": GATED, "gated": "Gated", "macro": "TILEWRIGHT_GATED"}
    else:
        own |= {"formula": PLAIN[config.mainloop], "gated": "", "macro": "TILEWRIGHT"}
    return shared_variables(config) | own


def header(config: MixedGemmConfig) -> str:
    """The header of a kernel. With more columns, tensor cores take the time, and not decoding."""
    if config.mainloop == "stream":
        return "gated_stream" if is_gated(config) else "stream"
    quick = config.weight_format == "int4_g128" and config.a == "bf16" and config.tile.n <= QUICK_COLUMNS
    return HEADERS[config.mainloop, is_gated(config)][quick] + "_40" * has_40_columns(config)


def shared_variables(config: MixedGemmConfig) -> dict[str, str]:
    """The variables that templates of groups have, too."""
    of_mainloop = _stream_variables if config.mainloop == "stream" else _wgmma_variables
    return spelt(
        {
            "operands": _operands(config),
            **memory_variables(config.tile, memory(config)),
            "schedule": schedule_text(config),
            "element": config.a.capitalize(),
            "element_d": "Element" if config.d == "same" else "sm90::F32",
            "format": format_type(config),
            "pdl": config.pdl,
            **of_mainloop(config),
        }
    )


def _operands(config: MixedGemmConfig) -> str:
    activations = f"A and D {config.a}" if config.d == "same" else f"A {config.a}, D {config.d}"
    return f"{activations}, W packed {config.weight_format}"


def _wgmma_variables(config: MixedGemmConfig) -> dict[str, Any]:
    m, n, k = config.tile
    return {
        "tile_m": m,
        "tile_n": n,
        "pieces": k // PIECE,
        "consumers": consumers(config),
        **({"k_groups": config.k_groups} if config.mainloop == "wgmma" else {}),
        **SCHEDULES[config.schedule],
    }


def _stream_variables(config: MixedGemmConfig) -> dict[str, Any]:
    m, n, _ = config.tile
    return {"slices": m // PIECE, "rows": n, "warps": config.warps, "blocks": blocks_of_sm(config)}
