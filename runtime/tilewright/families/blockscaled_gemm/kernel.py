"""The name, summary, table row and template variables of a `blockscaled_gemm` kernel."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.family import Settling
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import (
    camel,
    kernel_operands,
    memory_variables,
    named,
    spelt,
    with_launch,
)
from tilewright.families.blockscaled_gemm import compilation, cutlass_kernel, rules, tcgen05_kernel
from tilewright.families.blockscaled_gemm.alignment import alignment
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    BlockscaledGemmFacts,
    by_mma,
    by_tcgen05,
)
from tilewright.families.blockscaled_gemm.memory import memory
from tilewright.families.blockscaled_gemm.mma_memory import mma_memory, warpgroups
from tilewright.families.blockscaled_gemm.problem import BLOCK, c_type
from tilewright.families.blockscaled_gemm.tcgen05_memory import shares_k

RULES = rules.RULES
build = compilation.build
table_template = "blockscaled_gemm/table.cc.j2"  # which binds the struct with the appended members
# The only C (and bias) of a kernel of our mainloops for Blackwell, which a call may leave out.
settling = Settling(
    "mainloop",
    "default",
    {"default": {}, "mma": {"c": "same", "bias": True}, "tcgen05": {"c": "same", "bias": True}},
)

_CUDA_TYPES = {"bf16": "__nv_bfloat16", "f16": "__half", "f32": "float"}


def kernel_name(config: BlockscaledGemmConfig) -> str:
    """See `named`."""
    return named(
        "blockscaled_gemm", config.arch, config.a, config.b, config.d, config.tile,
        "mma" if by_mma(config) else "dyn" if config.cluster == "dynamic" else config.cluster,
        flag("tcgen05", by_tcgen05(config)),
        config.schedule.replace("cooperative", "coop"), flag("streamk", config.scheduler == "stream_k"),
        flag("swap", config.swap_ab), flag("c", config.c == "same" and config.mainloop == "default"),
        flag("bias", config.bias and config.mainloop == "default"), flag("act", config.activation == "given"),
        {"tma": "", "direct": "direct", "direct_256": "direct256"}[config.store],
        flag("noprefetch", config.prefetch == "none"),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
    )  # fmt: skip


def formula(config: BlockscaledGemmConfig) -> str:
    """The formula that the kernel computes, in the terms of its caller."""
    terms = f"alpha * (A[m,k] SFA[m,k/{BLOCK[config.a]}]) (B[n,k] SFB[n,k/{BLOCK[config.b]}])"
    if config.c == "same":
        terms += " + beta * C[m,n]"
    if config.bias:
        terms += " + bias[n]"
    if config.activation == "given":
        terms = f"activation({terms})"
    if config.quantizes:
        return f"D[m,n], SFD[m,n/{BLOCK[config.d]}] = quantise({terms})"
    return f"D[m,n] = {terms}"


def schedule_text(config: BlockscaledGemmConfig) -> str:
    """Schedule, scheduler and the other settings of the main loop, in words."""
    schedule = {"1sm": "one SM an MMA", "2sm": "two SMs an MMA"}.get(config.schedule, config.schedule)
    words = [schedule, "stream-K" if config.scheduler == "stream_k" else "data-parallel tiles"]
    if by_mma(config):
        words = ["mma.sync, a launch chooses the split of k"]
    if by_tcgen05(config) and shares_k(config):
        words[1] += ", splits of k at run time"
    if config.swap_ab:
        words.append("operands swapped")
    if config.bias:
        words.append("a bias" + flag(" and an activation", config.activation == "given"))
    if config.ultra or by_tcgen05(config):
        words.append("loads announced to L2" if config.prefetch == "tma" else "no prefetch")
    if config.store != "tma":
        words.append(f"D stored from registers, {32 if config.store == 'direct_256' else 16} bytes at a time")
    return ", ".join(words)


def summary(config: BlockscaledGemmConfig) -> str:
    """One line for lists."""
    cluster = "run-time cluster" if config.cluster == "dynamic" else f"cluster {config.cluster}"
    if by_mma(config):
        return f"{config.a} x {config.b} -> {config.d}, tile {config.tile}, {schedule_text(config)}"
    return f"{config.a} x {config.b} -> {config.d}, tile {config.tile}, {cluster}, {schedule_text(config)}"


def facts(config: BlockscaledGemmConfig) -> BlockscaledGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    consumers = warpgroups(config).consumers if by_mma(config) else 2
    facts: BlockscaledGemmFacts = {
        "stages": stages,
        "smem_bytes": total,
        # Hopper: a warpgroup for each 64 rows. tcgen05: four single warps and four of the epilogue, which a
        # tile of K 768 pads to three warpgroups if TMA stores D. sm_12x: a producer warpgroup and the
        # consumers.
        "threads": 192
        if by_tcgen05(config)
        else 384
        if config.ultra and config.store == "tma"
        else {HOPPER: 2 * config.tile.m, TCGEN05: 256, SM120: 128 * (consumers + 1)}[config.architecture],
        "block": BLOCK[config.a],
        "alignment": alignment(config),
    }
    if config.cluster == "dynamic":
        facts["cluster_multiple"] = (2 if config.schedule == "2sm" else 1, 1)
    if by_tcgen05(config):
        facts["splits"] = shares_k(config)
    return facts


def template(config: BlockscaledGemmConfig) -> str:
    """The template of the kernel's source: Hopper's kernels have a mainloop of our own."""
    if by_mma(config):
        return "blockscaled_gemm/mma.cu.j2"
    if by_tcgen05(config):
        return "blockscaled_gemm/tcgen05.py.j2"
    return f"blockscaled_gemm/{'hopper' if config.architecture is HOPPER else 'blackwell'}.cu.j2"


def host(config: BlockscaledGemmConfig) -> str:
    """The header with a unit's host code, which its module's table includes."""
    cute_dsl = flag("tilewright/blockscaled_gemm/cute_dsl_host.hpp", by_tcgen05(config))
    return cute_dsl or flag("tilewright/blockscaled_gemm/mma_host.hpp", by_mma(config))


def variables(config: BlockscaledGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    if config.architecture is HOPPER:
        own, where = _hopper(config), " (M along the caller's n)"
    elif by_mma(config):
        own, where = _mma(config), ""
    elif by_tcgen05(config):
        own, where = tcgen05_kernel.variables(config), f" in clusters of {config.cluster}"
    else:
        own = cutlass_kernel.variables(config)
        dynamic = config.cluster == "dynamic"
        where = ", run-time clusters" if dynamic else f", clusters of {config.cluster}"
    c_and_d = "D" if config.c == "none" else f"C {c_type(config.d)} and D"
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": f"A {config.a} row-major, B {config.b} column-major, {c_and_d} {config.d} row-major, "
        "summed in f32",
        **memory_variables(config.tile, memory(config), where),
        "schedule": with_launch(schedule_text(config), config),
        "swap_ab": config.swap_ab,
        "pdl": config.pdl,
    }
    return spelt(common | own)


def _hopper(config: BlockscaledGemmConfig) -> dict[str, Any]:
    namespace = "tilewright::blockscaled_gemm::sm90"
    return {
        "format_a": f"{namespace}::{camel(config.a)}",
        "format_b": f"{namespace}::{camel(config.b)}",
        "element_d": _CUDA_TYPES[config.d],
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "tile_k": config.tile.k,
        "with_c": config.c == "same",
        "bias": flag(", true", config.bias),
    }


def _mma(config: BlockscaledGemmConfig) -> dict[str, Any]:
    format_a, format_b = (camel(dtype) for dtype in kernel_operands(config))
    return {
        "format_a": format_a,
        "format_b": format_b,
        "element_d": config.d.capitalize(),
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "tile_k": config.tile.k,
        "activation": config.activation.capitalize(),
        "store_buffers": mma_memory(config).store_buffers,
    }
