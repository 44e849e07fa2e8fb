"""Shared memory of a kernel, as `sm90/scaled_mainloop.hpp` and `grouped_gemm/kernel.hpp` lay it out."""

from __future__ import annotations

from functools import lru_cache

from tilewright.types import bits
from tilewright_generator.families.grouped_gemm.config import GroupedGemmConfig, own_scales
from tilewright_generator.families.lean_tiles import (
    BARRIER_BYTES,
    BOX_BYTES,
    MOST_STAGES,
    SHARED_MEMORY,
    Warpgroups,
    cooperative,
    store_bytes,
)
from tilewright_generator.shapes import round_up

_QUEUE_BYTES = 96  # two tiles of 32 bytes on their way to the consumers, each with two barriers
_TMA_SHARED = 128  # at multiples of which TMA writes to shared memory


def warpgroups(config: GroupedGemmConfig) -> Warpgroups:
    """How the consumers divide the tile."""
    return cooperative(config.tile.m, config.tile.n)


def boxes(config: GroupedGemmConfig) -> int:
    """Boxes of 128 bytes of k in a stage."""
    return config.tile.k * bits(config.a) // 8 // BOX_BYTES


def operand_bytes(config: GroupedGemmConfig) -> int:
    """Bytes of A and B that one stage holds."""
    return (config.tile.m + config.tile.n) * boxes(config) * BOX_BYTES


def scale_bytes(config: GroupedGemmConfig) -> int:
    """Bytes of rows' scale factors beside them."""
    sides = zip(own_scales(config), (config.tile.m, config.tile.n), strict=True)
    return sum(round_up(boxes(config) * rows * 4, _TMA_SHARED) for scales, rows in sides if scales == "rows")


@lru_cache(maxsize=1 << 12)
def memory(config: GroupedGemmConfig) -> tuple[int, int]:
    """Stages, and bytes of dynamic shared memory of a thread block."""
    stores = store_bytes(warpgroups(config), bits(config.d), config.swap_ab, config.store_buffers)
    stage = operand_bytes(config) + scale_bytes(config) + BARRIER_BYTES
    fitting = min(MOST_STAGES, (SHARED_MEMORY - stores - _QUEUE_BYTES) // stage)
    stages = fitting if config.stages == "auto" else config.stages
    return stages, stages * stage + stores + _QUEUE_BYTES


def exchanges(config: GroupedGemmConfig) -> bool:
    """Whether the sums fit into the stages' memory: to be added up along k, and to a C of 16 bits."""
    return 4 * config.tile.m * config.tile.n <= memory(config)[0] * operand_bytes(config)
