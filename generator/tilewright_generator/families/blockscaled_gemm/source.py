"""The template of a kernel's source, and what it is rendered with."""

from __future__ import annotations

from typing import Any

from tilewright.ops.blockscaled_gemm.problem import BLOCK
from tilewright.types import TYPES, bits
from tilewright_generator.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    architecture,
    c_type,
    quantizes,
    ultra,
)
from tilewright_generator.families.blockscaled_gemm.kernel import alignment, formula, kind, schedule_text
from tilewright_generator.families.blockscaled_gemm.memory import ULTRA_SPARE, memory
from tilewright_generator.families.shared import CUTLASS_TYPES, camel, kernel_operands, spelt, with_launch

_CUDA_TYPES = {"bf16": "__nv_bfloat16", "f16": "__half", "f32": "float"}


def template(config: BlockscaledGemmConfig) -> str:
    """The template of the kernel's source: Hopper's kernels have a mainloop of our own."""
    return f"blockscaled_gemm/{'hopper' if architecture(config) is HOPPER else 'blackwell'}.cu.j2"


def variables(config: BlockscaledGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    stages, total = memory(config)
    own = _hopper(config) if architecture(config) is HOPPER else _blackwell(config)
    c_and_d = "D" if config.c == "none" else f"C {c_type(config)} and D"
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": f"A {config.a} row-major, B {config.b} column-major, {c_and_d} {config.d} row-major, "
        "summed in f32",
        "memory": f"{config.tile}{own.pop('in_clusters')}, {stages} stages, {total:,} bytes of shared memory",
        "schedule": with_launch(schedule_text(config), config),
        "shared_memory": total,
        "swap_ab": config.swap_ab,
        "pdl": config.pdl,
    }
    return spelt(common | own)


def _hopper(config: BlockscaledGemmConfig) -> dict[str, Any]:
    namespace = "tilewright::blockscaled_gemm::sm90"
    return {
        "in_clusters": " (M along the caller's n)",
        "format_a": f"{namespace}::{camel(config.a)}",
        "format_b": f"{namespace}::{camel(config.b)}",
        "element_d": _CUDA_TYPES[config.d],
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "tile_k": config.tile.k,
        "stages": memory(config).stages,
        "with_c": config.c == "same",
    }


def _blackwell(config: BlockscaledGemmConfig) -> dict[str, Any]:
    a, b = kernel_operands(config)
    aligned = alignment(config)
    two_sm = config.schedule == "2sm"
    tile = (config.tile.m * (2 if two_sm else 1), config.tile.n, config.tile.k)
    dynamic = config.cluster == "dynamic"
    cluster = ("int", "int") if dynamic else tuple(f"Int<{extent}>" for extent in config.cluster)
    return {
        "in_clusters": ", run-time clusters" if dynamic else f", clusters of {config.cluster}",
        "two_sm": two_sm,
        "element_a": _operand(config, a),
        "element_b": _operand(config, b),
        "element_c": "void" if config.c == "none" else CUTLASS_TYPES[c_type(config)],
        "element_d": CUTLASS_TYPES[config.d],
        "layout_d": "ColumnMajor" if config.swap_ab else "RowMajor",
        "alignment_a": aligned["b" if config.swap_ab else "a"],
        "alignment_b": aligned["a" if config.swap_ab else "b"],
        "alignment_c": aligned["c"],
        "alignment_d": aligned["d"],
        "tile": f"Shape<Int<{tile[0]}>, Int<{tile[1]}>, Int<{tile[2]}>>",
        "cluster": f"Shape<{cluster[0]}, {cluster[1]}, _1>",
        "arch_tag": "Sm103" if ultra(config) else _sm(config),
        "epilogue_tile": _epilogue_tile(config),
        "epilogue_schedule": _epilogue_schedule(config),
        "mainloop_schedule": _mainloop_schedule(config),
        "stage_count": _stage_count(config),
        "scheduler": _scheduler(config),
        "quantizes": quantizes(config),
        "block_d": BLOCK.get(config.d, 1),
        "element_scale_d": _scale(config.d) if quantizes(config) else "",
    }


def _sm(config: BlockscaledGemmConfig) -> str:
    return "Sm120" if architecture(config) is SM120 else "Sm100"


def _pair(config: BlockscaledGemmConfig) -> str:
    return "2Sm" if config.schedule == "2sm" else "1Sm"


def _scale(dtype: str) -> str:
    return f"cutlass::float_u{TYPES[dtype].scale.removeprefix('u')}_t"


def _operand(config: BlockscaledGemmConfig, dtype: str) -> str:
    if ultra(config):  # whose builder takes data and scales apart
        return f"cute::tuple<{CUTLASS_TYPES[dtype]}, {_scale(dtype)}>"
    return f"cutlass::{dtype[:2]}_float{bits(dtype)}_t<{CUTLASS_TYPES[dtype]}>"


def _stage_count(config: BlockscaledGemmConfig) -> str:
    if config.stages != "auto":
        return f"cutlass::gemm::collective::StageCount<{config.stages}>"
    spare = f" + {ULTRA_SPARE}" if ultra(config) else ""
    return (
        "cutlass::gemm::collective::StageCountAutoCarveout<"
        f"int(sizeof(typename CollectiveEpilogue::SharedStorage)){spare}>"
    )


def _epilogue_tile(config: BlockscaledGemmConfig) -> str:
    # At N of 256 CUTLASS's own choice is 128 columns, whose buffers cost a mainloop stage of FP4.
    if architecture(config) is TCGEN05 and config.store == "tma" and config.tile.n == 256:
        return "Shape<_128, _64>"
    return "cutlass::epilogue::collective::EpilogueTileAuto"


def _epilogue_schedule(config: BlockscaledGemmConfig) -> str:
    if architecture(config) is SM120:
        return "TmaWarpSpecialized" + "Cooperative" * (config.schedule == "cooperative")
    return f"{'Tma' if config.store == 'tma' else 'NoSmem'}WarpSpecialized{_pair(config)}"


def _mainloop_schedule(config: BlockscaledGemmConfig) -> str:
    name = {"nvfp4": "Nvf4", "mxfp4": "Mxf4", "mx": "Mxf8f6f4"}[kind(config)]
    if ultra(config):
        prefetch = "TmaPrefetch" if config.prefetch == "tma" else "DisablePrefetch"
        name = f"BlockScaledMxNvf4UltraVs{BLOCK[config.a]}Sm103{prefetch}"
    else:
        name += _sm(config)
    warps = "Pingpong" * (config.schedule == "pingpong") if architecture(config) is SM120 else _pair(config)
    return f"KernelTmaWarpSpecialized{warps}{name}"


def _scheduler(config: BlockscaledGemmConfig) -> str:
    if config.scheduler == "stream_k":
        return "StreamKScheduler"
    return "Static" * (architecture(config) is SM120) + "PersistentScheduler"
