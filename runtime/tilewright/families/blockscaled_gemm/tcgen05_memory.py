"""Shared memory of our kernels of tcgen05, as `blockscaled_gemm/tcgen05_program.py` lays it out."""

from __future__ import annotations

from tilewright.configurations.shapes import round_up
from tilewright.configurations.shared import ONE_BLOCK, Memory
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.formats.types import bits

_SUBTILE_COLUMNS, SUBTILE_BUFFERS = 32, 2  # of D, that threads of the epilogue have at a time
_ALIGNMENT = 1024  # bytes: of the buffers and stages
_SCALE_ROWS = 128  # rows whose scale factors lie together
_MOST_STAGES = 12  # more do not hide more latency


def sms(config: BlockscaledGemmConfig) -> int:
    """The SMs that an MMA runs on."""
    return 2 if config.schedule == "2sm" else 1


def stage_depth(config: BlockscaledGemmConfig) -> int:
    """Elements along k of a stage: lines of 128 bytes. A tile of K 768 takes three stages."""
    return min(config.tile.k, 1024 // bits(config.a))


def tma_buffers(config: BlockscaledGemmConfig) -> int:
    """Buffers of D's subtiles on their way to memory by TMA; none if threads store D."""
    return 0 if config.swap_ab or config.store != "tma" else SUBTILE_BUFFERS


def subtile_columns(config: BlockscaledGemmConfig) -> int:
    """Columns of D that an epilogue's thread has at a time. TMA stores a D of FP8 in lines of 64 bytes."""
    if bits(config.d) == 8 and tma_buffers(config):
        return 2 * _SUBTILE_COLUMNS
    return min(config.tile.n, _SUBTILE_COLUMNS)


def shares_k(config: BlockscaledGemmConfig) -> bool:
    """Whether thread blocks may share a tile along k: threads store D, and the sums fit into the memory of
    A's stages (gemm/tcgen05_ranges.py)."""
    m, n, _ = config.tile
    stage_bytes = m * stage_depth(config) * bits(config.a) // 8
    fits = 4 * m * n <= tcgen05_memory(config).stages * stage_bytes
    return config.swap_ab and config.cluster == ONE_BLOCK and fits


def tcgen05_memory(config: BlockscaledGemmConfig) -> Memory:
    """Barriers and the address of tensor memory, buffers of D, then the stages of A, B and their scale
    factors, each at a multiple of 1024 bytes. For two stages, if fewer fit."""
    (m, n, _), k = config.tile, stage_depth(config)
    data = (m + n // sms(config)) * k * bits(config.a) // 8
    scales_a, scales_b = (round_up(rows, _SCALE_ROWS) * k // BLOCK[config.a] for rows in (m, n))
    buffers = m * subtile_columns(config) * bits(config.d) // 8 * tma_buffers(config)
    stores = _ALIGNMENT + max(_ALIGNMENT, buffers)

    def total(stages: int) -> int:
        scales = round_up(stages * scales_a, _ALIGNMENT) + round_up(stages * scales_b, _ALIGNMENT)
        return stores + stages * data + scales

    room = config.hardware.shared_memory.block
    fitting = next((count for count in range(_MOST_STAGES, 0, -1) if total(count) <= room), 0)
    stages = fitting if config.stages == "auto" else config.stages
    return Memory(stages, total(max(stages, 2)))
