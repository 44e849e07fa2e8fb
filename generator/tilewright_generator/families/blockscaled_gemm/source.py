"""The template of a kernel's source, and what it is rendered with."""

from __future__ import annotations

from typing import Any

from tilewright_generator.families.blockscaled_gemm.config import (
    BlockscaledGemmConfig,
    block,
    c_type,
    family,
    quantizes,
    ultra,
)
from tilewright_generator.families.blockscaled_gemm.kernel import alignment, formula, schedule_text
from tilewright_generator.families.blockscaled_gemm.memory import ULTRA_SPARE, memory
from tilewright_generator.families.shared import kernel_operands, spelt, with_launch

_OUTPUTS = {
    "bf16": "cutlass::bfloat16_t",
    "f16": "cutlass::half_t",
    "f32": "float",
    "nvfp4": "cutlass::float_e2m1_t",
    "mxfp8": "cutlass::float_e4m3_t",
}
_OPERANDS = {
    "nvfp4": "cutlass::nv_float4_t<cutlass::float_e2m1_t>",
    "mxfp4": "cutlass::mx_float4_t<cutlass::float_e2m1_t>",
    "mxfp8": "cutlass::mx_float8_t<cutlass::float_e4m3_t>",
    "mxfp8_e5m2": "cutlass::mx_float8_t<cutlass::float_e5m2_t>",
}
_SCALES = {
    "nvfp4": "cutlass::float_ue4m3_t",
    "mxfp4": "cutlass::float_ue8m0_t",
    "mxfp8": "cutlass::float_ue8m0_t",
    "mxfp8_e5m2": "cutlass::float_ue8m0_t",
}
_HOPPER_OUTPUTS = {"bf16": "__nv_bfloat16", "f16": "__half", "f32": "float"}
_HOPPER_FORMATS = {"nvfp4": "Nvfp4", "mxfp4": "Mxfp4", "mxfp8": "Mxfp8", "mxfp8_e5m2": "Mxfp8E5m2"}


def template(config: BlockscaledGemmConfig) -> str:
    """The template of the kernel's source: Hopper's kernels have a mainloop of our own."""
    return f"blockscaled_gemm/{'hopper' if family(config) == 'hopper' else 'blackwell'}.cu.j2"


def variables(config: BlockscaledGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": _operands_text(config),
        "schedule": with_launch(schedule_text(config), config),
        "swap_ab": config.swap_ab,
        "pdl": config.pdl,
    }
    return spelt(common | (_hopper(config) if family(config) == "hopper" else _blackwell(config)))


def _operands_text(config: BlockscaledGemmConfig) -> str:
    c_and_d = "D" if config.c == "none" else f"C {c_type(config)} and D"
    return f"A {config.a} row-major, B {config.b} column-major, {c_and_d} {config.d} row-major, summed in f32"


def _hopper(config: BlockscaledGemmConfig) -> dict[str, Any]:
    namespace = "tilewright::blockscaled_gemm::sm90"
    stages, total = memory(config)
    return {
        "memory": f"{config.tile} (M along the caller's n), {stages} stages, "
        f"{total:,} bytes of shared memory",
        "format_a": f"{namespace}::{_HOPPER_FORMATS[config.a]}",
        "format_b": f"{namespace}::{_HOPPER_FORMATS[config.b]}",
        "element_d": _HOPPER_OUTPUTS[config.d],
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "tile_k": config.tile.k,
        "stages": stages,
        "shared_memory": total,
        "with_c": config.c == "same",
    }


def _blackwell(config: BlockscaledGemmConfig) -> dict[str, Any]:
    a, b = kernel_operands(config)
    aligned = alignment(config)
    two_sm = config.schedule == "2sm"
    tile = (config.tile.m * (2 if two_sm else 1), config.tile.n, config.tile.k)
    dynamic = config.cluster == "dynamic"
    cluster = ("int", "int") if dynamic else tuple(f"Int<{extent}>" for extent in config.cluster)
    depth, total = memory(config)
    return {
        "memory": f"{config.tile}, {'run-time clusters' if dynamic else f'clusters of {config.cluster}'}, "
        f"{depth} stages, {total:,} bytes of shared memory",
        "shared_memory": total,
        "two_sm": two_sm,
        "element_a": _operand(config, a),
        "element_b": _operand(config, b),
        "element_c": "void" if config.c == "none" else _OUTPUTS[c_type(config)],
        "element_d": _OUTPUTS[config.d],
        "layout_d": "ColumnMajor" if config.swap_ab else "RowMajor",
        "alignment_a": aligned["b" if config.swap_ab else "a"],
        "alignment_b": aligned["a" if config.swap_ab else "b"],
        "alignment_c": aligned["c"],
        "alignment_d": aligned["d"],
        "tile": f"Shape<Int<{tile[0]}>, Int<{tile[1]}>, Int<{tile[2]}>>",
        "cluster": f"Shape<{cluster[0]}, {cluster[1]}, _1>",
        "arch_tag": "Sm103" if ultra(config) else "Sm120" if family(config) == "sm120" else "Sm100",
        "epilogue_tile": _epilogue_tile(config),
        "epilogue_schedule": _epilogue_schedule(config),
        "mainloop_schedule": _mainloop_schedule(config),
        "stage_count": _stage_count(config),
        "scheduler": _scheduler(config),
        "quantizes": quantizes(config),
        "block_d": block(config.d),
        "element_scale_d": _SCALES.get(config.d, ""),
    }


def _stage_count(config: BlockscaledGemmConfig) -> str:
    if config.stages != "auto":
        return f"cutlass::gemm::collective::StageCount<{config.stages}>"
    spare = f" + {ULTRA_SPARE}" if ultra(config) else ""
    return (
        "cutlass::gemm::collective::StageCountAutoCarveout<"
        f"int(sizeof(typename CollectiveEpilogue::SharedStorage)){spare}>"
    )


def _operand(config: BlockscaledGemmConfig, dtype: str) -> str:
    if ultra(config):  # whose builder takes data and scales apart
        return f"cute::tuple<cutlass::float_e2m1_t, {_SCALES[dtype]}>"
    return _OPERANDS[dtype]


def _epilogue_tile(config: BlockscaledGemmConfig) -> str:
    # At N of 256 CUTLASS's own choice is 128 columns, whose buffers cost a mainloop stage of FP4.
    if family(config) == "tcgen05" and config.store == "tma" and config.tile.n == 256:
        return "Shape<_128, _64>"
    return "cutlass::epilogue::collective::EpilogueTileAuto"


def _epilogue_schedule(config: BlockscaledGemmConfig) -> str:
    if family(config) == "sm120":
        return "TmaWarpSpecializedCooperative" if config.schedule == "cooperative" else "TmaWarpSpecialized"
    store = "TmaWarpSpecialized" if config.store == "tma" else "NoSmemWarpSpecialized"
    return f"{store}{'2Sm' if config.schedule == '2sm' else '1Sm'}"


def _mainloop_schedule(config: BlockscaledGemmConfig) -> str:
    pair = "2Sm" if config.schedule == "2sm" else "1Sm"
    if ultra(config):
        prefetch = "TmaPrefetch" if config.prefetch == "tma" else "DisablePrefetch"
        return f"KernelTmaWarpSpecialized{pair}BlockScaledMxNvf4UltraVs{block(config.a)}Sm103{prefetch}"
    kind = (
        {"nvfp4": "Nvf4", "mxfp4": "Mxf4"}.get(config.a, "Mxf8f6f4") if config.a == config.b else "Mxf8f6f4"
    )
    if family(config) == "sm120":
        return f"KernelTmaWarpSpecialized{'Pingpong' if config.schedule == 'pingpong' else ''}{kind}Sm120"
    return f"KernelTmaWarpSpecialized{pair}{kind}Sm100"


def _scheduler(config: BlockscaledGemmConfig) -> str:
    if config.scheduler == "stream_k":
        return "StreamKScheduler"
    return "StaticPersistentScheduler" if family(config) == "sm120" else "PersistentScheduler"
