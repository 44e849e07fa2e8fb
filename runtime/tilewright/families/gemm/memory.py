"""Shared memory of a `gemm` kernel, to the byte as CUTLASS 4.2 or our mainloops lay it out.

Every generated file asserts the total against the compiler's, so a change in CUTLASS's layout stops
the build instead of silently costing a pipeline stage. Sources: `sm90_builder.inl` (epilogue tile,
stages, reuse), `sm90_gmma_builder.inl` (mainloop stages), `sm90_gemm_tma_warpspecialized_*.hpp`
(the kernel's own storage); `configurations/lean_tiles.py`.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from tilewright.configurations import lean_tiles
from tilewright.configurations.shapes import round_up
from tilewright.configurations.shared import (
    BARRIER,
    HOPPER_SHARED_MEMORY,
    ONE_BLOCK,
    SM120_SHARED_MEMORY,
    Memory,
)
from tilewright.configurations.sources import k_contiguous, kernel_operands, swizzle
from tilewright.families.gemm.config import GemmConfig
from tilewright.families.gemm.problem import GATED
from tilewright.formats.types import bits

SUBTILE_COLUMNS, SUBTILE_BUFFERS = 64, 2  # of what a cute_dsl kernel stores at a time: lines of 128 bytes
CUTE_DSL_ALIGNMENT = 1024  # bytes: of the buffers and stages of a cute_dsl or tcgen05 kernel
TCGEN05_COLUMNS = 32  # of D, that a thread of a tcgen05 kernel's epilogue mostly has at a time
MOST_TCGEN05_STAGES = 12  # more do not hide more latency
DATA_CENTER_SHARED_MEMORY = HOPPER_SHARED_MEMORY  # bytes that a thread block of sm_100, 103, 110 may have
# Rows and columns of D, and warps of a thread block, of a stream kernel.
STREAM_ROWS, STREAM_COLUMNS, STREAM_WARPS = 8, 16, 8


@lru_cache(maxsize=1 << 15)  # rules, facts, variables and summary ask in turn
def memory(config: GemmConfig) -> Memory:
    """The stages that fit, and the bytes of dynamic shared memory of a thread block; for two stages, if fewer
    fit."""
    layouts = {
        "cutlass": _cutlass,
        "lean": _boxed,
        "mma": _boxed,
        "stream": _stream,
        "cute_dsl": _cute_dsl,
        "tcgen05": _tcgen05,
    }
    return layouts[config.mainloop](config)


def block_bytes(config: GemmConfig) -> int:
    """The most shared memory of a thread block. Kernels of mma.sync have no more on sm_90a than on sm_12x, so
    that both run the same code."""
    return SM120_SHARED_MEMORY if config.mainloop == "mma" else HOPPER_SHARED_MEMORY


def epilogue_tile(config: GemmConfig) -> tuple[int, int]:
    """Rows and columns of the kernel's tile that the epilogue stores at a time."""
    rows = min(128 if config.schedule == "cooperative" else 64, config.tile.m)
    return rows, gcd(min(32, config.tile.n), config.tile.n)


def stage_bytes(config: GemmConfig) -> int:
    """Bytes of A and B that one mainloop stage holds."""
    a, b = kernel_operands(config)
    m, n, k = config.tile
    return round_up(m * k * bits(a) // 8 + n * k * bits(b) // 8, 128)


def _cutlass(config: GemmConfig) -> Memory:
    rows, columns = epilogue_tile(config)
    d_bytes = bits(config.d) // 8
    tiles = (config.tile.m // rows) * (config.tile.n // columns)
    stages_d = min(tiles, 2)
    if config.c == "same":  # C and D share their buffers
        stages_c = buffers = max(min(tiles, 4), stages_d + 1)
    else:
        stages_c, buffers = min(tiles, 4), stages_d
    alignment = 8 * swizzle((rows if config.swap_ab else columns) * d_bytes)
    bias_bytes = config.tile.n * d_bytes if config.bias and not config.swap_ab else 1
    epilogue = round_up(buffers * rows * columns * d_bytes + bias_bytes, alignment)
    carveout = round_up(epilogue + round_up(stages_c * BARRIER, alignment), 128)

    stage = stage_bytes(config)
    fitting = (HOPPER_SHARED_MEMORY - carveout) // (stage + BARRIER)
    if config.tile.n == 8:  # CUTLASS compiles only even numbers of stages for N of 8 (the rule `columns`)
        fitting -= fitting % 2
    stages = fitting if config.stages == "auto" else config.stages
    pipelines = (stages + stages_c) * BARRIER + (48 if config.schedule == "pingpong" else 16) + 16
    total = round_up(round_up(pipelines, alignment) + epilogue + max(stages, 2) * stage, alignment)
    return Memory(stages, total)


def _boxed(config: GemmConfig) -> Memory:
    divided, barriers = warpgroups(config), 0
    gated = config.activation in GATED
    # Barriers at which a C arrives, in the buffers from which TMA stores.
    if bits(config.d) == 16 and not gated:
        warps = 1 if config.swap_ab else 4  # warps that store independently
        barriers = 8 * divided.consumers * warps * lean_tiles.store_buffers(divided, config.swap_ab)
    # D of a gated activation has half of the columns (sm90/gated_epilogue.hpp).
    halved = divided._replace(columns=divided.columns // 2) if gated and not config.swap_ab else divided
    stores = lean_tiles.store_bytes(halved, bits(config.d), config.swap_ab) + barriers
    if gated and config.swap_ab:
        stores //= 2
    stage = lean_tiles.operand_bytes(config) + BARRIER
    return lean_tiles.fitted(config.stages, stage, stores, room=block_bytes(config))


def _cute_dsl(config: GemmConfig) -> Memory:
    """Barriers, buffers of D, then stages, at multiples of 1024 bytes (templates/gemm/cute_dsl.py.j2)."""
    stage = stage_bytes(config)
    stores = CUTE_DSL_ALIGNMENT + config.tile.m * SUBTILE_COLUMNS * bits(config.d) // 8 * SUBTILE_BUFFERS
    return lean_tiles.fitted(config.stages, stage, stores)


def _tcgen05(config: GemmConfig) -> Memory:
    """Barriers and the address of tensor memory, buffers of D, then stages, at multiples of 1024 bytes
    (gemm/tcgen05_program.py)."""
    m, n, k = config.tile
    stage = (m + n // sms(config)) * k * bits(config.a) // 8
    buffers = 0 if config.swap_ab else m * tcgen05_columns(config) * bits(config.d) // 8 * SUBTILE_BUFFERS
    stores = CUTE_DSL_ALIGNMENT + max(CUTE_DSL_ALIGNMENT, buffers)
    room = DATA_CENTER_SHARED_MEMORY
    return lean_tiles.fitted(config.stages, stage, stores, most=MOST_TCGEN05_STAGES, room=room)


def tcgen05_columns(config: GemmConfig) -> int:
    """Columns of D that a thread of a tcgen05 kernel's epilogue has at a time. TMA stores a D of FP8 in lines
    of 64 bytes."""
    if bits(config.d) == 8 and not config.swap_ab:
        return 2 * TCGEN05_COLUMNS
    return TCGEN05_COLUMNS if config.tile.n % TCGEN05_COLUMNS == 0 else TCGEN05_COLUMNS // 2


def sms(config: GemmConfig) -> int:
    """The SMs that an MMA of a tcgen05 kernel runs on."""
    return 2 if config.schedule == "2sm" else 1


def shares_k(config: GemmConfig) -> bool:
    """Whether thread blocks may share a tile of a tcgen05 kernel along k: threads store D, and the sums fit
    into the memory of A's stages (gemm/tcgen05_ranges.py)."""
    m, n, k = config.tile
    fits = 4 * m * n <= memory(config).stages * m * k * bits(config.a) // 8
    return config.swap_ab and config.cluster == ONE_BLOCK and fits


def _stream(config: GemmConfig) -> Memory:
    """Bytes for the sums of each warp, and for their total."""
    return Memory(1, (STREAM_WARPS + 1) * STREAM_ROWS * STREAM_COLUMNS * 4)


def warpgroups(config: GemmConfig) -> lean_tiles.Warpgroups:
    """How warpgroups of a lean or mma kernel divide a tile, as in gemm/lean_kernel.hpp and
    gemm/mma_kernel.hpp: each has a tile, or a part of one."""
    m, n, _ = config.tile
    if config.schedule == "pingpong":
        return lean_tiles.Warpgroups(2, m // 64, n)
    if config.mainloop == "mma":
        return lean_tiles.by_mma(m, n, boxed=not k_contiguous(config)[1])
    return lean_tiles.cooperative(m, n)


def epilogue_through_smem(config: GemmConfig) -> bool:
    """Whether the sums of a lean kernel's warpgroups, which then share a tile, fit into the memory of its
    stages."""
    stages = memory(config).stages
    return config.schedule == "cooperative" and lean_tiles.epilogue_through_smem(config, stages)
