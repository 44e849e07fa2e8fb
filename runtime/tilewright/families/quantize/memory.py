"""Threads and shared memory of a thread block, as quantize/*.hpp lay them out.

Every generated file asserts both against the compiler's.
"""

from __future__ import annotations

from tilewright.families.quantize.config import (
    QuantizeConfig,
    block,
    by_thresholds,
    converts_e2m1,
    in_cute_dsl,
)
from tilewright.formats.types import bits

ROWS = 4  # rows that a warp computes at a time
_BARRIER = 8
_COLUMNS = 128  # columns of a tile of column.hpp
_FACTORS = 256 * 4  # bytes of the factors of NVFP4's scales
_LINE, _BOX_ALIGNMENT = 128, 1024  # bytes: of a row of a box that TMA swizzles; of boxes in shared memory
_THRESHOLDS = 128 * 32  # bytes of the thresholds of E4M3's magnitudes


def elements(config: QuantizeConfig) -> int:
    """Elements of a row that a thread takes at a time: 32 bytes of x (16 of E4M3); dequantising, 8."""
    return 8 if config.direction == "dequantize" or config.x == "f32" else 16


def threads(config: QuantizeConfig) -> int:
    """Threads of a thread block: the tma variant has a warp that copies."""
    return config.threads + (32 if config.variant == "tma" else 0)


def shared_bytes(config: QuantizeConfig) -> int:
    """Bytes of dynamic shared memory of a thread block."""
    warps, table = config.threads // 32, 0
    if config.format == "nvfp4" and config.arithmetic == "exact":
        table = _THRESHOLDS if by_thresholds(config) else _FACTORS
    if in_cute_dsl(config) and config.variant == "tma":
        barriers = -(-2 * config.stages * _BARRIER // _BOX_ALIGNMENT) * _BOX_ALIGNMENT
        rows, _ = box(config)
        return table + barriers + config.stages * rows * _LINE
    if config.direction == "dequantize":
        return 0
    if block(config.format)[0] > 1:  # an amax for each warp, or column, and the factor that follows
        return 2 * _COLUMNS * 4 if block(config.format)[1] == 1 else warps * 4
    if config.fusion == "rmsnorm":
        return table + warps * ROWS * 4
    if config.variant == "tma":
        slot = ROWS * 32 * elements(config) * bits(config.x) // 8
        return -(-config.stages * (warps * slot + (warps + 1) * _BARRIER) // 16) * 16 + table
    return table


def box(config: QuantizeConfig) -> tuple[int, int]:
    """Rows and columns that a thread block of a kernel in CuTe-DSL takes at a time (nvfp4_program.py)."""
    columns = 8 * _LINE // bits(config.x) if config.variant == "tma" else 32 * elements(config)
    return config.threads * elements(config) // columns * ROWS, columns


def resident(config: QuantizeConfig) -> int:
    """Thread blocks that an SM should hold of a kernel in CuTe-DSL: with fewer, a thread has more registers.
    With the conversion to E2M1, ptxas spilled registers for three of the tma variant; on sm_100 it did so for
    three of the vector variant, which loads 32 bytes at once."""
    if config.variant == "tma":
        return 2 if converts_e2m1(config) else 3
    wide = config.x != "e4m3" and config.arch.startswith("sm_100")
    return (512 if wide else 768) // config.threads
