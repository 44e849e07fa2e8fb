"""The shared memory of a `mixed_fp8_grouped_gemm` kernel: that of `mixed_fp8_gemm`, and a queue of tiles."""

from __future__ import annotations

from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, Memory
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.memory import stage_bytes, warpgroups
from tilewright.families.mixed_grouped_gemm.memory import QUEUE


def memory(config: MixedFp8GemmConfig) -> Memory:
    """The stages that fit, and the shared memory of the kernel in bytes."""
    beside = lean_tiles.store_bytes(warpgroups(config), 16, swapped=True) + QUEUE
    beside += (config.k_groups - 1) * config.tile.m * config.tile.n * 4  # sums of all groups but the first
    stage = stage_bytes(config) + BARRIER
    fitting = min(lean_tiles.MOST_STAGES, (HOPPER_SHARED_MEMORY - beside) // stage)
    fitting -= fitting % config.k_groups
    stages = fitting if config.stages == "auto" else int(config.stages)
    return Memory(stages, max(stages, 2) * stage + beside)
