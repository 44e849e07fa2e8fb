"""The shared memory of a `mixed_fp8_gemm` kernel, as mixed_fp8_gemm/layout.hpp lays it out.

Every generated file asserts the total against the compiler's."""

from __future__ import annotations

from tilewright import weight_formats
from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, Memory
from tilewright.families.mixed_fp8_gemm.config import (
    MOST_SUMS,
    MOST_SUMS_IN_TURN,
    TURN_WIDTHS,
    WIDTHS,
    MixedFp8GemmConfig,
)
from tilewright.families.mixed_gemm.problem import FORMATS


def warpgroups(config: MixedFp8GemmConfig) -> lean_tiles.Warpgroups:
    """The warpgroups that multiply: 64 rows of the tile each."""
    return lean_tiles.Warpgroups(config.tile.m // 64, 1, config.tile.n)


BUFFERS = 2
"""Buffers of decoded weights for each warpgroup that multiplies, where another one decodes."""


def width(config: MixedFp8GemmConfig) -> int:
    """The columns that a warpgroup multiplies and promotes at once; 0 if there is no such number."""
    if config.fast_accum or config.schedule == "in_turn":
        return config.tile.n
    if config.width != "auto":
        return config.width
    columns, widths = config.tile.n, TURN_WIDTHS if config.schedule == "parts_in_turn" else WIDTHS
    return max((w for w in widths if columns % w == 0 and columns + w <= most_sums(config)), default=0)


def most_sums(config: MixedFp8GemmConfig) -> int:
    """The columns of sums that a thread has registers for."""
    return MOST_SUMS_IN_TURN if config.schedule == "parts_in_turn" else MOST_SUMS


def stage_bytes(config: MixedFp8GemmConfig) -> int:
    """Bytes of a stage, without its barriers."""
    format, group = FORMATS[config.weight_format]
    kind = weight_formats.FORMATS[format]
    unit = kind.unit_bytes + kind.record_bytes(group)
    return config.tile.m // 64 * unit + config.tile.n * config.tile.k


def memory(config: MixedFp8GemmConfig) -> Memory:
    """Stages, as many as shared memory holds, and its bytes."""
    stores = lean_tiles.store_bytes(warpgroups(config), 16, swapped=True)
    if config.fast_accum:  # the largest scale
        stores += BARRIER
    if config.schedule == "ahead":  # buffers of decoded weights
        stores += BUFFERS * (config.tile.m * config.tile.k + config.tile.m // 64 * BARRIER)
    stage = stage_bytes(config) + BARRIER
    return lean_tiles.fitted(config.stages, stage, stores)
