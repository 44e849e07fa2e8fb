"""The shared memory of a `mixed_gemm` kernel, as mixed_gemm/layout.hpp lays it out.

Every generated file asserts the total against the compiler's."""

from __future__ import annotations

from tilewright import weight_layout
from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, Memory
from tilewright.families.mixed_gemm.config import MixedGemmConfig
from tilewright.families.mixed_gemm.problem import FORMATS

FEW_COLUMNS = 32  # more sums would spill with four warpgroups
PIECE = 64  # elements of k in a box of activations, and in a piece of the weight


def warpgroups(config: MixedGemmConfig) -> lean_tiles.Warpgroups:
    """The warpgroups of one group: one has 64 rows, two have 128 or 256, three have 192. Four have 256 if the
    tile has few columns: decoding takes the most time then, and more warps hide its latencies."""
    slices = config.tile.m // 64
    consumers = {1: 1, 3: 3}.get(slices, 2)
    if slices == 4 and config.tile.n <= FEW_COLUMNS:
        consumers = 4
    return lean_tiles.Warpgroups(consumers, max(slices // consumers, 1), config.tile.n)


def consumers(config: MixedGemmConfig) -> int:
    """All warpgroups that multiply."""
    return warpgroups(config).consumers * config.k_groups


def scale_bytes(config: MixedGemmConfig) -> int:
    """Bytes of the scales of 64 rows in a stage: those of 128 of k, or of half of them. Where 128 of k share
    a scale, a stage of 64 has it, too."""
    format, group = FORMATS[config.weight_format]
    unit = weight_layout.FORMATS[format].record_bytes(group)
    return unit // 2 if config.tile.k == PIECE and group < weight_layout.UNIT_K else unit


def activation_bytes(config: MixedGemmConfig) -> int:
    """Bytes of activations in a stage."""
    return config.tile.n * config.tile.k * 2


def stage_bytes(config: MixedGemmConfig) -> int:
    """Bytes of a stage, without its barriers."""
    weights = config.tile.m // 64 * (64 * config.tile.k // 2 + scale_bytes(config))
    return weights + activation_bytes(config)


def memory(config: MixedGemmConfig) -> Memory:
    """Stages, as many as shared memory holds, and its bytes."""
    stores = lean_tiles.store_bytes(warpgroups(config), 16, swapped=True)
    stage = stage_bytes(config) + BARRIER
    fitting = min(lean_tiles.MOST_STAGES, (HOPPER_SHARED_MEMORY - stores) // stage)
    fitting -= fitting % config.k_groups
    stages = fitting if config.stages == "auto" else int(config.stages)
    return Memory(stages, max(stages, 2) * stage + stores)
