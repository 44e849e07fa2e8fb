"""Shared memory of a kernel, byte for byte: on Blackwell as CUTLASS 4.2 lays it out, on Hopper as
`blockscaled_gemm/sm90/config.hpp` does.

Every generated file asserts the total against the compiler's, so that a change in CUTLASS's layout stops the
build. Sources: `sm100_blockscaled_umma_builder.inl`, `sm103_blockscaled_umma_builder.inl` and
`sm120_blockscaled_mma_builder.inl` (stages), `sm100_builder.inl` and `sm120_builder.inl` (the epilogue's
tile, stages, reuse), the kernels' own storage.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tilewright.configurations.shapes import round_up
from tilewright.configurations.shared import BARRIER, Memory
from tilewright.configurations.sources import swizzle
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    by_mma,
    by_tcgen05,
)
from tilewright.families.blockscaled_gemm.mma_memory import mma_memory
from tilewright.families.blockscaled_gemm.occupancy import resident
from tilewright.families.blockscaled_gemm.problem import BLOCK, c_type
from tilewright.families.blockscaled_gemm.tcgen05_memory import tcgen05_memory
from tilewright.formats.types import bits
from tilewright.selection.estimates import BLOCK_SHARED_BYTES, SM_SHARED_BYTES, held_by_memory

ULTRA_SPARE = 512  # bytes that an ultra kernel leaves free, because CUTLASS counts too few for barriers
# CUTLASS 4.5 counts a stage's barriers as 128 bytes, and on sm_12x leaves room for a dynamic scheduler.
_COUNTED_BARRIER = {"4.2": 16, "4.5": 128, "4.8": 128}
_SM120_SCHEDULER = {"4.2": 0, "4.5": 96, "4.8": 96}
_GROUP_TILES = 8  # tiles of groups that are on their way from the scheduler
TENSOR_MAP = 128  # bytes of a tensor map
TENSOR_MEMORY = 512  # columns
_ULTRA_BUFFERS = {16: 4, 32: 2}  # buffers of scale factors of a tile of K 768, by block
_SCALE_ROWS = 128  # rows whose scale factors lie together

# Hopper's.
_BARRIER = 8  # bytes of an mbarrier
_MOST_STAGES = 6  # more stages brought no gain
_AIM = {64: 3, 128: 2, 256: 1}  # desired thread blocks of an SM, by tile M


class _Epilogue(NamedTuple):
    """The shared memory of an epilogue."""

    tensors: int  # bytes
    alignment: int  # bytes
    stages_c: int  # stages that load C; they have barriers also if there is no C

    @property
    def carveout(self) -> int:
        """Bytes that CUTLASS's computation of stages reserves for the epilogue."""
        return round_up(self.tensors + self.stages_c * BARRIER, self.alignment)

    def total(self, barriers: int, mainloop: int, least: int = 128) -> int:
        """Bytes of epilogue, barriers and mainloop, whose tensors are aligned to `least`."""
        alignment = max(self.alignment, least)
        head = round_up(barriers, alignment) + round_up(self.tensors, least)
        return round_up(head + mainloop, alignment)


_DIRECT = _Epilogue(8208, 16, 1)  # CUTLASS keeps a buffer although D goes past shared memory


@lru_cache(maxsize=1 << 12)
def memory(config: BlockscaledGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory. If none fits, the bytes of one stage."""
    if by_mma(config):
        return Memory(*mma_memory(config)[:2])
    if by_tcgen05(config):
        return tcgen05_memory(config)
    if config.ultra:
        return _ultra(config)
    return {HOPPER: _hopper, TCGEN05: _tcgen05, SM120: _sm120}[config.architecture](config)


def _tcgen05(config: BlockscaledGemmConfig) -> Memory:
    epilogue = _tcgen05_epilogue(config)
    # Rubin's tensor memory has 576 columns: room for two tiles' sums, and scale factors.
    accumulators = 1 if config.tile.n == 256 and not config.rubin else 2
    # Accumulators, scheduler, its responses and throttle, load order, tensor memory.
    kernel = accumulators * BARRIER + 2 * BARRIER + 2 * 16 + 2 * BARRIER + 16 + 8 + 8
    stages, mainloop = _stages(config, kernel + epilogue.carveout)
    barriers = (stages + epilogue.stages_c + accumulators) * BARRIER + 96
    return Memory(stages, epilogue.total(barriers + 2 * 16 + 4, mainloop))


def memory_of_groups(config: BlockscaledGemmConfig) -> Memory:
    """The same of CUTLASS's kernel of groups for tcgen05 (`sm100_gemm_array_tma_warpspecialized.hpp`), which
    keeps the tensor maps of A, B and their scale factors in shared memory."""
    accumulators = 1 if config.tile.n == 256 else 2
    kernel, head = _group_scheduler(accumulators, maps=4)
    stages, mainloop = _stages(config, kernel + group_carveout(config))
    return Memory(stages, _of_groups(config, head + stages * BARRIER, mainloop, maps=4))


def memory_of_plain_groups(config: BlockscaledGemmConfig, stage: int) -> Memory:
    """The same of operands without scale factors, whose stages take `stage` bytes. `config` has the tile, the
    schedule and D."""
    kernel, head = _group_scheduler(min(4, TENSOR_MEMORY // config.tile.n), maps=2)
    room = config.hardware.shared_memory.block - kernel - group_carveout(config)
    stages = room // (stage + BARRIER) if config.stages == "auto" else config.stages
    return Memory(stages, _of_groups(config, head + stages * BARRIER, stages * stage, maps=2))


def memory_of_scaled_groups(config: BlockscaledGemmConfig, stage: int, scales: int, counted: int) -> Memory:
    """The same of CUTLASS's kernel that scales sums in registers
    (`sm100_gemm_array_tma_warpspecialized_mma_transform.hpp`), whose stages have `stage` bytes of A and B and
    `scales` of F32 factors, for which `sm100_blockwise_umma_builder.inl` counts `counted`. Factors have
    barriers of their own, and the scheduler passes on one tile."""
    accumulators = TENSOR_MEMORY // config.tile.n
    kernel = accumulators * BARRIER + 3 * 16 + 16 + 8 + 4 + 2 * TENSOR_MAP
    room = config.hardware.shared_memory.block - kernel - group_carveout(config)
    fitting = room // (round_up(stage + counted, 128) + 2 * BARRIER)
    stages = fitting if config.stages == "auto" else config.stages
    head = (2 * stages + accumulators + 1) * BARRIER + 4 * 16 + 16 + 4
    return Memory(stages, _of_groups(config, head, stages * (stage + scales), maps=2))


def _group_scheduler(accumulators: int, maps: int) -> tuple[int, int]:
    """Bytes that the builder counts beside stages and epilogue, and bytes of barriers and responses, of
    kernels whose scheduler passes on eight tiles."""
    # Accumulators, the scheduler's barriers, throttle and responses, load order, tensor memory, tensor maps.
    kernel = accumulators * BARRIER + 3 * _GROUP_TILES * 16 + 16 + 8 + _GROUP_TILES * 4 + maps * TENSOR_MAP
    return kernel, (accumulators + _GROUP_TILES) * BARRIER + 3 * 16 + _GROUP_TILES * 16 + 4


def group_carveout(config: BlockscaledGemmConfig) -> int:
    """Bytes of the epilogue of a kernel of groups, with its tensor maps, as the builder counts them."""
    epilogue = _tcgen05_epilogue(config)
    if config.store != "tma":
        return epilogue.tensors
    return round_up(epilogue.tensors + 2 * TENSOR_MAP + epilogue.stages_c * BARRIER, epilogue.alignment)


def _of_groups(config: BlockscaledGemmConfig, head: int, mainloop: int, maps: int) -> int:
    """All bytes of a kernel of groups: the head has no barriers of C, which are added."""
    epilogue = _tcgen05_epilogue(config)
    # Without TMA, CUTLASS keeps a second buffer in the place of the tensor maps of C and D.
    own = 2 * TENSOR_MAP if config.store == "tma" else round_up(epilogue.tensors, TENSOR_MAP)
    head = round_up(head + epilogue.stages_c * BARRIER, TENSOR_MAP) + maps * TENSOR_MAP + own
    return epilogue.total(head, mainloop)


def _sm120(config: BlockscaledGemmConfig) -> Memory:
    epilogue = _sm120_epilogue(config)
    stages, mainloop = _stages(config, _SM120_SCHEDULER[config.cutlass] + epilogue.carveout)
    order = 48 if config.schedule == "pingpong" else 16
    barriers = (stages + epilogue.stages_c) * BARRIER + order
    return Memory(stages, epilogue.total(barriers, mainloop, least=1024))


def _stages(config: BlockscaledGemmConfig, others: int) -> tuple[int, int]:
    """The stages that fit beside `others` bytes, and the bytes of A, B and their scale factors in them. FP4
    beside FP8 takes a byte per element."""
    m, n, k = config.tile
    width = max(bits(config.a), bits(config.b))
    rows_b = n // 2 if config.schedule == "2sm" else n
    scale_rows = round_up(m, _SCALE_ROWS) + round_up(n, _SCALE_ROWS)
    stage = (m + rows_b) * k * width // 8 + scale_rows * (k // BLOCK[config.a])
    room = config.hardware.shared_memory.block - others
    fitting = room // (stage + _COUNTED_BARRIER[config.cutlass])
    stages = fitting if config.stages == "auto" else config.stages
    return stages, stages * stage


def _ultra(config: BlockscaledGemmConfig) -> Memory:
    """Data and scale factors have a pipeline each; scale factors take the memory that data leave."""
    accumulators = 1 if config.tile.n == 256 else 2
    kernel = accumulators * BARRIER + 3 * BARRIER + 3 * 16 + 3 * BARRIER + 16 + 8 + accumulators * 4
    epilogue = _tcgen05_epilogue(config)
    room = config.hardware.shared_memory.block - kernel - epilogue.carveout - ULTRA_SPARE
    rows_b = config.tile.n // (2 if config.schedule == "2sm" else 1)
    data = (config.tile.m + rows_b) * 128
    columns = config.tile.k // BLOCK[config.a] // _ULTRA_BUFFERS[BLOCK[config.a]]
    scales = (_SCALE_ROWS + round_up(config.tile.n, _SCALE_ROWS)) * columns
    fitting = room // (data + scales + 2 * BARRIER)
    stages = fitting if config.stages == "auto" else config.stages
    left = room - stages * (data + scales + 2 * BARRIER)
    buffers = stages + max(0, left // (scales + BARRIER))
    barriers = (stages + buffers + accumulators + epilogue.stages_c) * BARRIER + 180
    return Memory(stages, epilogue.total(barriers, stages * data + buffers * scales))


def _tcgen05_epilogue(config: BlockscaledGemmConfig) -> _Epilogue:
    """`sm100_builder.inl`: 128 rows; the columns depend on the types of C and D; D reuses C's buffers."""
    if config.store != "tma":
        return _DIRECT
    n, with_c = config.tile.n, config.c == "same"
    widest = max(bits(config.d), bits(c_type(config.d)) if with_c else 0)
    if n == 256:  # our template sets it
        columns = 64
    elif with_c:
        columns = (16 if n <= 128 else 32) if widest == 32 else 32 if n <= 128 else 64
    else:
        columns = 64 if widest == 4 else 32
    columns = min(columns, n)
    stages_d, stages_c = min(n // columns, 2), min(n // columns, 4)
    if with_c:
        stages_c = max(stages_c, stages_d + 1)
    buffers, width = (stages_c, widest) if with_c else (stages_d, bits(config.d))
    tensors = buffers * 128 * columns * width // 8
    alignment = _alignment(config, 128, columns)
    # A bias along the kernel's n is kept; one along its m goes to registers.
    fusion = n * bits(config.d) // 8 if config.bias and not config.swap_ab else 1
    return _Epilogue(round_up(tensors + fusion, alignment), alignment, stages_c)


def _sm120_epilogue(config: BlockscaledGemmConfig) -> _Epilogue:
    """`sm120_builder.inl`: 64 rows of 32 columns; a C of D's type shares D's buffers."""
    stages = stages_c = min(config.tile.m // 64 * (config.tile.n // 32), 2)
    widths = stages * bits(config.d)
    if config.c == "same" and c_type(config.d) == config.d:
        stages_c = stages + 1
        widths = stages_c * bits(config.d)
    elif config.c == "same":
        widths += stages_c * bits(c_type(config.d))
    alignment = _alignment(config, 64, 32)
    fusion = 256 if config.quantizes else 1  # maxima that warps exchange
    return _Epilogue(round_up(64 * 32 * widths // 8 + fusion, alignment), alignment, stages_c)


def _alignment(config: BlockscaledGemmConfig, rows: int, columns: int) -> int:
    """The alignment of the buffers of D and C: eight rows of their swizzle. On tcgen05, column-major 32-bit
    buffers have another swizzle."""

    def of(width: int) -> int:
        if config.swap_ab and width == 32 and config.architecture is TCGEN05:
            return 512
        return 8 * swizzle((rows if config.swap_ab else columns) * width // 8)

    return max(of(bits(config.d)), of(bits(c_type(config.d))) if config.c == "same" else 0)


def _hopper(config: BlockscaledGemmConfig) -> Memory:
    """Stages of packed data and scale factors; two tiles of decoded activations, or three if they cost
    neither a stage nor a thread block on the SM. The epilogue reuses this memory."""
    m, n, k = config.tile
    decoded = n * k * 2  # bytes of a tile of activations, as 16-bit numbers
    stage = sum(
        round_up(rows * k * bits(dtype) // 8, 1024) + round_up(rows, _SCALE_ROWS) * (k // BLOCK[dtype])
        for rows, dtype in ((m, config.b), (n, config.a))
    )
    stored = round_up(n * (m + 4) * 4, 16)

    def total(stages: int, buffers: int) -> int:
        return max(buffers * decoded + stages * stage, stored) + stages * _BARRIER

    room = SM_SHARED_BYTES // _AIM.get(m, 1) - BLOCK_SHARED_BYTES
    fitting = ((buffers, (room - buffers * decoded) // (stage + _BARRIER)) for buffers in (3, 2))
    most = next((min(stages, _MOST_STAGES) for buffers, stages in fitting if stages >= buffers), 2)
    stages = most if config.stages == "auto" else config.stages
    two, three = total(stages, 2), total(stages, 3)
    return Memory(stages, three if held_by_memory(three) >= resident(config.tile, two) else two)
