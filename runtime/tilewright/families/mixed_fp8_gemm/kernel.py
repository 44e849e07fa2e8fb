"""What is written of a `mixed_fp8_gemm` kernel: its name, summary, table row and template's variables."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import WGMMA
from tilewright.configurations.shared import Memory, flag
from tilewright.configurations.sources import memory_variables, named, spelt, with_launch
from tilewright.families.mixed_fp8_gemm import rules
from tilewright.families.mixed_fp8_gemm.config import MOST_SUMS_IN_TURN, MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.memory import memory, width
from tilewright.families.mixed_gemm.config import MixedGemmFacts
from tilewright.families.mixed_gemm.problem import FORMATS

RULES = rules.RULES
SUM = "alpha * F[m] * sum over k of A[m,k] W[n,k] + bias[n]"
POLICIES = {
    "at_will": ("mainloop", "AtWill"),
    "parts_in_turn": ("parts_in_turn", "PartsInTurn"),
    "ahead": ("ahead", "Ahead"),
}
"""The header and the type of the policy of each schedule that has parts of the columns."""


def kernel_name(config: MixedFp8GemmConfig) -> str:
    """See `named`."""
    return named(
        "mixed_fp8_gemm", config.arch, config.a, config.weight_format, config.d, config.tile,
        flag("fastacc", config.fast_accum), flag(config.schedule, config.schedule != "at_will"),
        flag("balanced", config.balanced),
        flag(f"w{config.width}", config.width != "auto"),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
    )  # fmt: skip


def format_type(config: MixedFp8GemmConfig) -> str:
    """The format's policy in C++ (mixed_fp8_gemm/decode.hpp)."""
    format, group = FORMATS[config.weight_format]
    if format == "mxfp4":
        quick = "Quick" if config.schedule == "quick" else ""
        return f"{quick}Mxfp4Whole" if config.fast_accum else "Mxfp4Groups" if config.block == 32 else "Mxfp4"
    if config.schedule == "parts_in_turn":
        return f"QuickInt4<sm90::{config.d.capitalize()}>"
    return f"Int4<sm90::{config.d.capitalize()}, {group}, {str(format == 'int4_zp').lower()}>"


def policy(config: MixedFp8GemmConfig) -> tuple[str, str]:
    """The header and the type of the schedule's policy."""
    if config.fast_accum:
        return (
            ("quick_fast", "QuickFast")
            if config.schedule == "quick"
            else ("fast", f"Fast<{config.k_groups}>")
        )
    if config.schedule == "in_turn":
        return "in_turn", "InTurn"
    header, name = POLICIES[config.schedule] if config.block == "auto" else ("mxfp4_groups", "AtWill")
    groups = f", {config.k_groups}" if config.k_groups > 1 else ""
    return header, f"{name}<{width(config)}{groups}>"


def schedule_text(config: MixedFp8GemmConfig) -> str:
    """How the work is done, in words."""
    words = "weights decoded to FP8 registers, operands swapped, " + (
        "a cluster's stages of k divided evenly"
        if config.balanced
        else "clusters and splits of k at run time"
    )
    if config.fast_accum:
        words += ", fast accumulation"
    return with_launch(words, config)


def summary(config: MixedFp8GemmConfig) -> str:
    """One line for lists."""
    return summary_of(config, memory(config), schedule_text(config))


def summary_of(config: MixedFp8GemmConfig, memory: Memory, schedule: str) -> str:
    """One line about a kernel with this shared memory and schedule."""
    types = f"{config.a} x {config.weight_format} -> {config.d}"
    return f"{types}, tile {config.tile}, {memory.stages} stages, {schedule}"


def facts(config: MixedFp8GemmConfig) -> MixedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    return {
        "stages": stages,
        "smem_bytes": total,
        "threads": 128 * (config.tile.m // 64 * config.k_groups + 1 + (config.schedule == "ahead")),
        "splits": True,
        "alignment": {"a": 16, "b": 1, "c": 1, "d": 8 if config.balanced else 1},
    }


def build(config: MixedFp8GemmConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which tensor-core instruction its machine code must hold."""
    row = {"arch": config.arch, "defines": [], "instructions": [WGMMA.opcodes["fp8"].name]}
    most_sums = config.tile.n + width(config) == MOST_SUMS_IN_TURN
    if config.schedule == "parts_in_turn" and most_sums and not config.balanced:
        # 192 of a thread's 240 registers hold sums. A loop of its own, without splits of k, spills nothing.
        row["spills"] = "some 40 of 128 sums, in the loop for splits of k"
    return row


def variables(config: MixedFp8GemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    own = {"header": "mixed_fp8_gemm", "macro": "MIXED_FP8", "formula": f"activation({SUM})"}
    if config.balanced:
        own = {"header": "balanced", "macro": "BALANCED_MIXED_FP8", "formula": SUM}
    return shared_variables(config) | own


def shared_variables(config: MixedFp8GemmConfig) -> dict[str, str]:
    """The variables that the template of groups has, too."""
    policy_header, policy_type = policy(config)
    return spelt(
        {
            "operands": f"A {config.a}, W packed {config.weight_format}, D {config.d}",
            **memory_variables(config.tile, memory(config)),
            "schedule": schedule_text(config),
            "element_d": config.d.capitalize(),
            "format": format_type(config),
            "tile_m": config.tile.m,
            "tile_n": config.tile.n,
            "policy": policy_header,
            "policy_type": f"Balanced<mixed_fp8_gemm::{policy_type}>" if config.balanced else policy_type,
            "pdl": config.pdl,
        }
    )
