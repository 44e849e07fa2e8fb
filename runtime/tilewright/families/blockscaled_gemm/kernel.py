"""The name, summary, table row and template variables of a `blockscaled_gemm` kernel."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.family import Settling
from tilewright.configurations.shared import MatrixAlignment, flag
from tilewright.configurations.sources import CUTLASS_TYPES, camel, kernel_operands, named, spelt, with_launch
from tilewright.families.blockscaled_gemm import rules, tcgen05_kernel
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    BlockscaledGemmFacts,
    by_mma,
    by_tcgen05,
)
from tilewright.families.blockscaled_gemm.memory import ULTRA_SPARE, memory
from tilewright.families.blockscaled_gemm.mma_memory import mma_memory, warpgroups
from tilewright.families.blockscaled_gemm.problem import BLOCK, c_type
from tilewright.families.blockscaled_gemm.tcgen05_memory import shares_k
from tilewright.formats.types import TYPES, bits

RULES = rules.RULES
table_template = "blockscaled_gemm/table.cc.j2"  # which binds the struct with the appended members
# The only C of a kernel of our mainloops for Blackwell, which a call may leave out.
settling = Settling("mainloop", "default", {"default": {}, "mma": {"c": "same"}, "tcgen05": {"c": "same"}})

_BIAS_RELEASES = (
    "the loads are of a bias in shared memory, and the arrival gives sums in tensor memory back; the next "
    "tile's bias is written behind a barrier of the epilogue's warps, to which they come with these loads "
    "returned"
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
        flag("bias", config.bias), flag("act", config.activation == "given"),
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
        terms = f"activation({terms} + bias[n])"
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
        words.append("a bias and an activation")
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


def alignment(config: BlockscaledGemmConfig) -> MatrixAlignment:
    """For each matrix the number of elements that divides its contiguous extent and its leading dimension.

    TMA moves 16 bytes; FP4 beside FP8 is unpacked to bytes by TMA, 128 elements at a time. Hopper's kernels
    take whole blocks of MX formats, and their epilogue stores single elements where it must.
    """
    if config.architecture is HOPPER:
        return {"a": 32, "b": 32, "c": 1, "d": 1}
    if by_mma(config):  # FP4 is unpacked from shared memory
        a, b = (128 // bits(dtype) for dtype in (config.a, config.b))
        return {"a": a, "b": b, "c": 1, "d": 1}
    store = 256 if config.store == "direct_256" else 128
    wide = 128 if config.mixes_bits else 32
    a, b = (wide if bits(dtype) == 4 else 16 for dtype in (config.a, config.b))
    return {"a": a, "b": b, "c": store // bits(c_type(config.d)), "d": store // bits(config.d)}


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


def build(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    # Empty for kernels that are ours.
    pdl = "" if config.mainloop != "default" else config.hardware.cutlass.pdl
    row: dict[str, Any] = {
        "arch": config.arch,
        "defines": [pdl] if config.pdl and pdl else [],
        "instructions": [_instruction(config)],
    }
    if config.cutlass != "4.2":
        row["cutlass"] = config.cutlass
    if by_tcgen05(config):
        row["compiler"] = "cute_dsl"
    if config.bias and config.architecture is TCGEN05 and not config.swap_ab:
        row["releases"] = _BIAS_RELEASES
    if by_mma(config):
        row["standard"] = "c++14"
    elif reason := _spills(config):
        row["spills"] = reason
    return row


def _spills(config: BlockscaledGemmConfig) -> str:
    """Why ptxas may spill the kernel's registers; empty if it may not."""
    if config.architecture is not SM120:
        return ""
    if config.tile.m * config.tile.n > 128 * 128:
        return "128 accumulators a thread, of 168 registers that 384 threads leave it"
    return flag("one word, in stream-K's fixup", config.tile.n == 64 and config.scheduler == "stream_k")


def _kind(config: BlockscaledGemmConfig) -> str:
    """The kind of the instruction: nvfp4, mxfp4, or mx if an operand has eight bits."""
    return config.a if config.a == config.b and bits(config.a) == 4 else "mx"


def _instruction(config: BlockscaledGemmConfig) -> str:
    """A pattern for the start of the opcode, whose suffixes name the scales."""
    pair = flag(r"\.2CTA", config.schedule == "2sm")
    # Hopper's kernels decode operands to 16 bits.
    kind = "half" if config.architecture is HOPPER else _kind(config)
    name, scales = config.hardware.tensor_core.opcodes[kind]
    return f"{name}{pair}{scales}"


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
    stages, total = memory(config)
    if config.architecture is HOPPER:
        own, where = _hopper(config) | {"stages": stages}, " (M along the caller's n)"
    elif by_mma(config):
        own, where = _mma(config) | {"stages": stages}, ""
    elif by_tcgen05(config):
        own, where = (
            tcgen05_kernel.variables(config) | {"stages": stages},
            f" in clusters of {config.cluster}",
        )
    else:
        own = blackwell(config)
        dynamic = config.cluster == "dynamic"
        where = ", run-time clusters" if dynamic else f", clusters of {config.cluster}"
    c_and_d = "D" if config.c == "none" else f"C {c_type(config.d)} and D"
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": f"A {config.a} row-major, B {config.b} column-major, {c_and_d} {config.d} row-major, "
        "summed in f32",
        "memory": f"{config.tile}{where}, {stages} stages, {total:,} bytes of shared memory",
        "schedule": with_launch(schedule_text(config), config),
        "shared_memory": total,
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
        "store_buffers": mma_memory(config).store_buffers,
    }


def blackwell(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """What the template of CUTLASS's collectives names."""
    aligned, swap = alignment(config), config.swap_ab
    two_sm, sm120 = config.schedule == "2sm", config.architecture is SM120
    epilogue, mainloop = _schedules(config)
    tile = (config.tile.m * (2 if two_sm else 1), config.tile.n, config.tile.k)
    cluster = "int, int"
    if config.cluster != "dynamic":
        cluster = f"Int<{config.cluster.m}>, Int<{config.cluster.n}>"
    # At N of 256 CUTLASS's own choice is 128 columns, whose buffers cost a mainloop stage of FP4.
    narrowed = not sm120 and config.store == "tma" and config.tile.n == 256
    epilogue_tile = "Shape<_128, _64>" if narrowed else "cutlass::epilogue::collective::EpilogueTileAuto"
    scheduler = "StaticPersistent" if sm120 else "Persistent"
    element_a, element_b = (_operand(config, dtype) for dtype in kernel_operands(config))
    return {
        "two_sm": two_sm,
        "element_a": element_a,
        "element_b": element_b,
        "element_c": "void" if config.c == "none" else CUTLASS_TYPES[c_type(config.d)],
        "element_d": CUTLASS_TYPES[config.d],
        "layout_d": "ColumnMajor" if swap else "RowMajor",
        "alignment_a": aligned["b" if swap else "a"],
        "alignment_b": aligned["a" if swap else "b"],
        "alignment_c": aligned["c"],
        "alignment_d": aligned["d"],
        "tile": _shape(tile),
        "cta_tile": _shape((*config.tile,)),
        "cluster": f"Shape<{cluster}, _1>",
        "arch_tag": _tag(config),
        "epilogue_tile": epilogue_tile,
        "epilogue_schedule": epilogue,
        "mainloop_schedule": mainloop,
        "stage_count": _stage_count(config),
        "scheduler": f"{'StreamK' if config.scheduler == 'stream_k' else scheduler}Scheduler",
        "quantizes": config.quantizes,
        "bias": ("AlongM" if swap else "AlongN") if config.bias else "",
        "block_d": BLOCK.get(config.d, 1),
        "element_scale_d": _scale(config.d) if config.quantizes else "",
    }


def _shape(tile: tuple[int, int, int]) -> str:
    m, n, k = tile
    return f"Shape<Int<{m}>, Int<{n}>, Int<{k}>>"


def _schedules(config: BlockscaledGemmConfig) -> tuple[str, str]:
    """CUTLASS's schedules of the epilogue and of the mainloop."""
    pair = "2Sm" if config.schedule == "2sm" else "1Sm"
    epilogue = f"{'Tma' if config.store == 'tma' else 'NoSmem'}WarpSpecialized{pair}"
    kind, tag = {"nvfp4": "Nvf4", "mxfp4": "Mxf4", "mx": "Mxf8f6f4"}[_kind(config)], _tag(config)
    mainloop = f"{pair}{kind}{tag}"
    if config.architecture is SM120:
        epilogue = "TmaWarpSpecialized" + flag("Cooperative", config.schedule == "cooperative")
        mainloop = f"{flag('Pingpong', config.schedule == 'pingpong')}{kind}{tag}"
    elif config.ultra:
        prefetch = "TmaPrefetch" if config.prefetch == "tma" else "DisablePrefetch"
        mainloop = f"{pair}BlockScaledMxNvf4UltraVs{BLOCK[config.a]}{tag}{prefetch}"
    return epilogue, f"KernelTmaWarpSpecialized{mainloop}"


def _tag(config: BlockscaledGemmConfig) -> str:
    """CUTLASS's name of the architecture whose mainloop the kernel has."""
    return config.hardware.cutlass.fp4_tag if config.ultra else config.hardware.cutlass.tag


def _scale(dtype: str) -> str:
    return f"cutlass::float_u{TYPES[dtype].scale.removeprefix('u')}_t"


def _operand(config: BlockscaledGemmConfig, dtype: str) -> str:
    if config.ultra:  # the builder takes the types of data and scales separately
        return f"cute::tuple<{CUTLASS_TYPES[dtype]}, {_scale(dtype)}>"
    return f"cutlass::{dtype[:2]}_float{bits(dtype)}_t<{CUTLASS_TYPES[dtype]}>"


def _stage_count(config: BlockscaledGemmConfig) -> str:
    if config.stages != "auto":
        return f"cutlass::gemm::collective::StageCount<{config.stages}>"
    carved = "int(sizeof(typename CollectiveEpilogue::SharedStorage))" + flag(
        f" + {ULTRA_SPARE}", config.ultra
    )
    return f"cutlass::gemm::collective::StageCountAutoCarveout<{carved}>"
