"""Shared memory of the kernels of mma.sync, as `blockscaled_gemm/mma_kernel.hpp` lays it out."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tilewright.configurations import lean_tiles
from tilewright.configurations.lean_tiles import Warpgroups
from tilewright.configurations.shapes import round_up
from tilewright.configurations.shared import BARRIER
from tilewright.configurations.sources import kernel_operands
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.formats.types import bits

BOX_BYTES = 128  # of k, in a row of a box; a stage of 64 bytes of k has one box of half the bytes
_SCALE_ROWS, _SCALE_COLUMNS = 128, 4  # of an atom of scale factors
_WORD_ROWS = 32  # rows of an atom that lie 16 bytes apart
_TMA_SHARED, _SWIZZLED = 128, 1024  # bytes at whose multiples TMA writes to shared memory
_BARRIER_OF_C = 8
_MOST_BUFFERS = 2  # subtiles of D on their way to memory, of a warpgroup
_ENOUGH_STAGES = 4  # for which the epilogue gives up no buffer


class MmaMemory(NamedTuple):
    """The stages and the epilogue's buffers that fit, and the bytes of both."""

    stages: int
    total: int
    store_buffers: int


def warpgroups(config: BlockscaledGemmConfig) -> Warpgroups:
    """How the consumer warpgroups divide the tile."""
    return lean_tiles.by_mma(config.tile.m, config.tile.n, boxed=False)


def operand_bytes(config: BlockscaledGemmConfig) -> int:
    """Bytes of both operands in a stage; FP4 beside FP8 lies packed."""
    sides = zip(kernel_operands(config), config.tile[:2], strict=True)
    return sum(rows * config.tile.k * bits(dtype) // 8 for dtype, rows in sides)


def scale_bytes(config: BlockscaledGemmConfig) -> int:
    """Bytes of both operands' scale factors in a stage."""
    atoms = config.tile.k // BLOCK[config.a] // _SCALE_COLUMNS
    return sum(
        -(-rows // _SCALE_ROWS) * atoms * min(rows, _WORD_ROWS) * _SCALE_ROWS // 8 for rows in config.tile[:2]
    )


@lru_cache(maxsize=1 << 12)
def mma_memory(config: BlockscaledGemmConfig) -> MmaMemory:
    """The stages that fit beside two store buffers, or beside one if two would leave few stages."""
    wide, narrow = (_with(config, buffers) for buffers in (_MOST_BUFFERS, 1))
    return wide if wide.stages >= min(narrow.stages, _ENOUGH_STAGES) else narrow


def _with(config: BlockscaledGemmConfig, buffers: int) -> MmaMemory:
    divided, swapped = warpgroups(config), config.swap_ab
    stores, barriers = lean_tiles.store_bytes(divided, bits(config.d), swapped, buffers), 0
    if bits(config.d) == 16:  # barriers at which a C arrives, in the buffers from which TMA stores
        warps = 1 if swapped else 4  # warps that store independently
        barriers = divided.consumers * warps * lean_tiles.store_buffers(divided, swapped, buffers)
    data, beside = operand_bytes(config), scale_bytes(config) + BARRIER

    def total(stages: int) -> int:
        operands = round_up(stages * data, _SWIZZLED)
        return operands + round_up(stores, _TMA_SHARED) + stages * beside + barriers * _BARRIER_OF_C

    room = config.hardware.shared_memory.block
    counts = range(lean_tiles.MOST_STAGES, 0, -1)
    fitting = next((stages for stages in counts if total(stages) <= room), 0)
    stages = fitting if config.stages == "auto" else config.stages
    return MmaMemory(stages, total(max(stages, 2)), buffers)
