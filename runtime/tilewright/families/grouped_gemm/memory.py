"""Shared memory of a kernel, as `sm90/scaled_layout.hpp`, `grouped_gemm/kernel.hpp`,
`grouped_gemm/mma_kernel.hpp` and `grouped_gemm/fp4_kernel.hpp` lay it out."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from tilewright.architectures.table import of_target
from tilewright.configurations import lean_tiles
from tilewright.configurations.lean_tiles import (
    MOST_STAGES,
    Warpgroups,
    cooperative,
    store_bytes,
)
from tilewright.configurations.shapes import round_up
from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, SM120_SHARED_MEMORY
from tilewright.configurations.sources import k_contiguous, kernel_operands
from tilewright.families.grouped_gemm import tcgen05, tcgen05_plain
from tilewright.families.grouped_gemm.config import GroupedGemmConfig, by_mma, by_tcgen05, own_scales, packed
from tilewright.formats.types import bits

_QUEUE_BYTES = 384  # eight tiles of 32 bytes on their way to the consumers, each with two barriers
_MORE_BUFFERS = (3, 4)
_BLOCK = 128  # rows, or elements of k, that share a scale factor or a word of them
_TMA_SHARED = 128  # bytes at whose multiples TMA writes to shared memory


def most_bytes(config: GroupedGemmConfig) -> int:
    """The most shared memory of a thread block. Kernels of mma.sync have no more on sm_90a than on sm_12x, so
    that both run the same code."""
    if by_tcgen05(config):
        return of_target(config.arch).shared_memory.block
    return SM120_SHARED_MEMORY if by_mma(config) else HOPPER_SHARED_MEMORY


def warpgroups(config: GroupedGemmConfig) -> Warpgroups:
    """How the consumer warpgroups divide the tile."""
    if by_mma(config):
        return lean_tiles.by_mma(config.tile.m, config.tile.n, boxed=not k_contiguous(config)[1])
    if config.tile.m == 192:
        return Warpgroups(3, 1, config.tile.n)
    return cooperative(config.tile.m, config.tile.n)


def side_bytes(config: GroupedGemmConfig) -> tuple[int, int]:
    """Bytes of a stage's rows of the kernel's own A and B. FP4 lies packed, beside FP8 too."""
    a, b = (config.tile.k * bits(dtype) // 8 for dtype in kernel_operands(config))
    return config.tile.m * a, config.tile.n * b


def scale_lines(config: GroupedGemmConfig) -> int:
    """Lines of a stage's scale factors: one for each 128 of k, in words or in floats, and one for less."""
    return max(1, config.tile.k // _BLOCK)


def scale_bytes(config: GroupedGemmConfig) -> int:
    """Bytes of a stage's scale factors of single rows."""
    sides = zip(own_scales(config), (config.tile.m, config.tile.n), strict=True)
    lines = scale_lines(config)
    return sum(round_up(lines * rows * 4, _TMA_SHARED) for scales, rows in sides if scales == "rows")


def float_bytes(divided: Warpgroups, most_buffers: int) -> int:
    """Bytes from which TMA stores F32 (sm90/float_boxes.hpp)."""
    quads = divided.columns // 8
    piece = 4 if quads % 4 == 0 else next((odd for odd in range(11, 1, -2) if quads % odd == 0), quads)
    return divided.consumers * min(most_buffers, divided.rows * (quads // piece)) * 64 * piece * 32


def blocks_of(rows: int) -> int:
    """The most blocks of 128 rows in which a tile of `rows` rows may lie. Tiles begin at multiples of
    `rows`."""
    return -(-(_BLOCK - gcd(rows, _BLOCK) + rows) // _BLOCK)


def block_bytes(config: GroupedGemmConfig) -> int:
    """Bytes of a stage's scale factors of blocks."""
    sides = zip(own_scales(config), (config.tile.m, config.tile.n), strict=True)
    words = sum(scale_lines(config) * blocks_of(rows) for scales, rows in sides if scales == "blocks")
    return round_up(words * 4, 16)


def _stored(config: GroupedGemmConfig, buffers: int) -> int:
    """Bytes from which D is stored, with `buffers` epilogue subtiles of each warpgroup."""
    if config.d == "f32" and not config.swap_ab:
        return float_bytes(warpgroups(config), buffers)
    return store_bytes(warpgroups(config), bits(config.d), config.swap_ab, buffers)


def stage_bytes(config: GroupedGemmConfig) -> int:
    """Bytes that a stage takes, with its barriers."""
    return sum(side_bytes(config)) + scale_bytes(config) + block_bytes(config) + BARRIER


def _stages(config: GroupedGemmConfig, buffers: int) -> int:
    stage = stage_bytes(config)
    return min(MOST_STAGES, (most_bytes(config) - _stored(config, buffers) - _QUEUE_BYTES) // stage)


@lru_cache(maxsize=1 << 12)
def buffers(config: GroupedGemmConfig) -> int:
    """The most epilogue subtiles of D that a warpgroup stores at once: two, or more if they cost no stage."""
    if config.store_buffers != "auto":
        return config.store_buffers
    stages = _stages(config, 2) if config.stages == "auto" else config.stages
    return max(count for count in (2, *_MORE_BUFFERS) if count == 2 or _stages(config, count) >= stages)


@lru_cache(maxsize=1 << 12)
def memory(config: GroupedGemmConfig) -> tuple[int, int]:
    """The stages that fit, and the bytes of a thread block's dynamic shared memory, for two stages at
    least."""
    if by_tcgen05(config):
        return tcgen05.memory(config) if packed(config) else tcgen05_plain.memory(config)
    count = buffers(config)
    stage = stage_bytes(config)
    stages = _stages(config, count) if config.stages == "auto" else config.stages
    return stages, max(stages, 2) * stage + _stored(config, count) + _QUEUE_BYTES
