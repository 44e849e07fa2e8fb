"""What the sources of `blockscaled_gemm` kernels with CUTLASS's collectives say
(templates/blockscaled_gemm/blackwell.cu.j2)."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import CUTLASS_TYPES, kernel_operands
from tilewright.families.blockscaled_gemm.alignment import alignment
from tilewright.families.blockscaled_gemm.compilation import kind
from tilewright.families.blockscaled_gemm.config import SM120, BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.memory import ULTRA_SPARE
from tilewright.families.blockscaled_gemm.problem import BLOCK, c_type
from tilewright.formats.types import TYPES, bits


def variables(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """The variables of the template that other kernels do not have."""
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
        "rubin": config.rubin,
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


# Variables that templates of groups share with that of `blockscaled_gemm`.
_OF_GROUPS = (
    "two_sm", "element_a", "element_b", "element_d", "layout_d", "tile", "cluster", "arch_tag",
    "epilogue_tile", "alignment_a", "alignment_b", "alignment_d", "stage_count",
)  # fmt: skip


def variables_of_groups(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """Variables of a template of groups, each of which has the product that this kernel computes."""
    own, aligned = variables(config), alignment(config)
    return {name: own[name] for name in _OF_GROUPS} | {
        "epilogue_schedule": f"PtrArray{own['epilogue_schedule']}",
        "mainloop_schedule": own["mainloop_schedule"].replace("KernelTma", "KernelPtrArrayTma"),
        "swap_ab": config.swap_ab,
        "bits_a": bits(config.a),
        "bits_b": bits(config.b),
        "caller_a": aligned["a"],
        "caller_b": aligned["b"],
    }


def _shape(tile: tuple[int, int, int]) -> str:
    m, n, k = tile
    return f"Shape<Int<{m}>, Int<{n}>, Int<{k}>>"


def _schedules(config: BlockscaledGemmConfig) -> tuple[str, str]:
    """CUTLASS's schedules of the epilogue and of the mainloop."""
    pair = "2Sm" if config.schedule == "2sm" else "1Sm"
    epilogue = f"{'Tma' if config.store == 'tma' else 'NoSmem'}WarpSpecialized{pair}"
    prefix, tag = {"nvfp4": "Nvf4", "mxfp4": "Mxf4", "mx": "Mxf8f6f4"}[kind(config)], _tag(config)
    mainloop = f"{pair}{prefix}{tag}"
    if config.architecture is SM120:
        epilogue = "TmaWarpSpecialized" + flag("Cooperative", config.schedule == "cooperative")
        mainloop = f"{flag('Pingpong', config.schedule == 'pingpong')}{prefix}{tag}"
    elif config.rubin:
        mainloop = f"{pair}{tag}BlockScaledMxNvf4Vs{BLOCK[config.a]}WithoutBreuse"
    elif config.ultra:
        prefetch = "TmaPrefetch" if config.prefetch == "tma" else "DisablePrefetch"
        mainloop = f"{pair}BlockScaledMxNvf4UltraVs{BLOCK[config.a]}{tag}{prefetch}"
    return epilogue, f"KernelTmaWarpSpecialized{mainloop}"


def _tag(config: BlockscaledGemmConfig) -> str:
    """CUTLASS's name of the architecture whose mainloop the kernel has."""
    return config.hardware.cutlass.fp4_tag if config.ultra or config.rubin else config.hardware.cutlass.tag


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
