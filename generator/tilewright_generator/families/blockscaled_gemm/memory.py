"""Shared memory of a Blackwell kernel, byte for byte as CUTLASS 4.2 lays it out.

Every generated file asserts the total against the compiler's, so that a change in CUTLASS's layout stops the
build. Sources: `sm100_blockscaled_umma_builder.inl`, `sm103_blockscaled_umma_builder.inl` and
`sm120_blockscaled_mma_builder.inl` (stages), `sm100_builder.inl` and `sm120_builder.inl` (the epilogue's
tile, stages, reuse), the kernels' own storage. Hopper's kernels are in `hopper.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tilewright.types import bits
from tilewright_generator.families.blockscaled_gemm import hopper
from tilewright_generator.families.blockscaled_gemm.config import (
    BlockscaledGemmConfig,
    block,
    c_type,
    family,
    quantizes,
    ultra,
)
from tilewright_generator.families.shared import BARRIER, SHARED_MEMORY, Memory, swizzle
from tilewright_generator.shapes import round_up

LIMITS = {"hopper": SHARED_MEMORY[90], "tcgen05": SHARED_MEMORY[100], "sm120": SHARED_MEMORY[120]}
ULTRA_SPARE = 512  # that an ultra kernel leaves: CUTLASS counts its barriers and alignment short
# CUTLASS 4.5 counts a stage's barriers as 128 bytes, and on sm_12x leaves room for a dynamic scheduler.
_COUNTED_BARRIER = {"4.2": 16, "4.5": 128}
_SM120_SCHEDULER = {"4.2": 0, "4.5": 96}
_ULTRA_BUFFERS = {16: 4, 32: 2}  # of scale factors, to a tile of K 768


class _Epilogue(NamedTuple):
    """Bytes of tensors; their alignment; stages that load C, which have barriers with or without one."""

    tensors: int
    alignment: int
    stages_c: int

    @property
    def carveout(self) -> int:
        """What the mainloop's stage count leaves for it."""
        return round_up(self.tensors + self.stages_c * BARRIER, self.alignment)


@lru_cache(maxsize=1 << 12)
def memory(config: BlockscaledGemmConfig) -> Memory:
    """Stages and bytes; what one stage would take where not even that fits."""
    kind = family(config)
    if kind == "hopper":
        return Memory(*hopper.memory(config))
    if ultra(config):
        return _ultra(config)
    return _sm120(config) if kind == "sm120" else _tcgen05(config)


def _tcgen05(config: BlockscaledGemmConfig) -> Memory:
    epilogue = _tcgen05_epilogue(config)
    accumulators = 1 if config.tile.n == 256 else 2
    # Accumulators, scheduler, its responses and throttle, load order, tensor memory.
    kernel = accumulators * BARRIER + 2 * BARRIER + 2 * 16 + 2 * BARRIER + 16 + 8 + 8
    stage = stage_bytes(config)
    room = LIMITS["tcgen05"] - kernel - epilogue.carveout
    stages = _stages(config, room // (stage + _COUNTED_BARRIER[config.cutlass]))
    barriers = (stages + epilogue.stages_c + accumulators) * BARRIER + 96
    return Memory(stages, _total(barriers + 2 * 16 + 4, epilogue, stages * stage))


def _sm120(config: BlockscaledGemmConfig) -> Memory:
    epilogue = _sm120_epilogue(config)
    stage = stage_bytes(config)
    room = LIMITS["sm120"] - _SM120_SCHEDULER[config.cutlass] - epilogue.carveout
    stages = _stages(config, room // (stage + _COUNTED_BARRIER[config.cutlass]))
    order = 48 if config.schedule == "pingpong" else 16
    barriers = (stages + epilogue.stages_c) * BARRIER + order
    return Memory(stages, _total(barriers, epilogue, stages * stage, least=1024))


def _ultra(config: BlockscaledGemmConfig) -> Memory:
    """Data and scale factors have pipelines of their own; the latter takes what the former leaves."""
    epilogue = _Epilogue(8208, 16, 1)  # CUTLASS keeps a buffer although D goes past shared memory
    accumulators = 1 if config.tile.n == 256 else 2
    kernel = accumulators * BARRIER + 3 * BARRIER + 3 * 16 + 3 * BARRIER + 16 + 8 + accumulators * 4
    room = LIMITS["tcgen05"] - kernel - epilogue.carveout - ULTRA_SPARE
    rows_b = config.tile.n // (2 if config.schedule == "2sm" else 1)
    data = (config.tile.m + rows_b) * 128
    columns = config.tile.k // block(config.a) // _ULTRA_BUFFERS[block(config.a)]
    scales = (128 + round_up(config.tile.n, 128)) * columns
    stages = _stages(config, room // (data + scales + 2 * BARRIER))
    left = room - stages * (data + scales + 2 * BARRIER)
    buffers = stages + max(0, left // (scales + BARRIER))
    barriers = (stages + buffers + accumulators + 1) * BARRIER + 180
    return Memory(stages, _total(barriers, epilogue, stages * data + buffers * scales))


def stage_bytes(config: BlockscaledGemmConfig) -> int:
    """Bytes of A, B and their scale factors that one mainloop stage holds; FP4 beside FP8 lies in bytes."""
    m, n, k = config.tile
    width = max(bits(config.a), bits(config.b))
    rows_b = n // 2 if config.schedule == "2sm" else n
    scale_rows = round_up(m, 128) + round_up(n, 128)
    return (m + rows_b) * k * width // 8 + scale_rows * (k // block(config.a))


def _tcgen05_epilogue(config: BlockscaledGemmConfig) -> _Epilogue:
    """`sm100_builder.inl`: 128 rows; columns by what C and D take; C's buffers serve D too."""
    if config.store != "tma":
        return _Epilogue(8208, 16, 1)
    n, with_c = config.tile.n, config.c == "same"
    widest = max(bits(config.d), bits(c_type(config)) if with_c else 0)
    if n == 256:  # what our template says
        columns = 64
    elif with_c:
        columns = (16 if n <= 128 else 32) if widest == 32 else 32 if n <= 128 else 64
    else:
        columns = 64 if widest == 4 else 32
    columns = min(columns, n)
    tiles, d_tile = n // columns, 128 * columns * bits(config.d) // 8
    stages_d, stages_c = min(tiles, 2), min(tiles, 4)
    alignment = _alignment(config, config.d, 128, columns)
    tensors = stages_d * d_tile
    if with_c:
        stages_c = max(stages_c, stages_d + 1)
        tensors = stages_c * 128 * columns * widest // 8
        alignment = max(alignment, _alignment(config, c_type(config), 128, columns))
    return _Epilogue(round_up(tensors + 1, alignment), alignment, stages_c)


def _sm120_epilogue(config: BlockscaledGemmConfig) -> _Epilogue:
    """`sm120_builder.inl`: 64 rows of 32 columns; a C of D's type shares D's buffers."""
    tiles = config.tile.m // 64 * (config.tile.n // 32)
    stages = stages_c = min(tiles, 2)
    tensors = stages * 64 * 32 * bits(config.d) // 8
    alignment = _alignment(config, config.d, 64, 32)
    if config.c == "same":
        c_tile = 64 * 32 * bits(c_type(config)) // 8
        if c_type(config) == config.d:
            stages_c = stages + 1
            tensors = stages_c * c_tile
        else:
            tensors += stages_c * c_tile
        alignment = max(alignment, _alignment(config, c_type(config), 64, 32))
    fusion = 256 if quantizes(config) else 1  # maxima that warps exchange
    return _Epilogue(round_up(tensors + fusion, alignment), alignment, stages_c)


def _alignment(config: BlockscaledGemmConfig, dtype: str, rows: int, columns: int) -> int:
    """Of a matrix's buffer: eight rows of its swizzle; on tcgen05 32-bit columns have one of their own."""
    if config.swap_ab and bits(dtype) == 32 and family(config) == "tcgen05":
        return 512
    return 8 * swizzle((rows if config.swap_ab else columns) * bits(dtype) // 8)


def _stages(config: BlockscaledGemmConfig, fitting: int) -> int:
    return fitting if config.stages == "auto" else config.stages


def _total(barriers: int, epilogue: _Epilogue, mainloop: int, least: int = 128) -> int:
    """Barriers, epilogue, mainloop; `least` is the alignment of the mainloop's tensors."""
    alignment = max(epilogue.alignment, least)
    head = round_up(barriers, alignment) + round_up(epilogue.tensors, least)
    return round_up(head + mainloop, alignment)
