"""The shared memory of a `mixed_grouped_gemm` kernel, as mixed_grouped_gemm/kernel.hpp lays it out: that of
`mixed_gemm`, the queue of tiles, and the sums that groups of warpgroups pass to the first group."""

from __future__ import annotations

from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, Memory
from tilewright.families.mixed_gemm import memory as dense
from tilewright.families.mixed_gemm.config import MixedGemmConfig
from tilewright.families.mixed_gemm.memory import stage_bytes, warpgroups

QUEUE = 8 * (32 + 16)  # eight tiles of 32 bytes, each with two barriers


def sum_bytes(config: MixedGemmConfig) -> int:
    """Bytes of the sums of all groups of warpgroups but the first."""
    return (config.k_groups - 1) * config.tile.m * config.tile.n * 4


def memory(config: MixedGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory. A stream kernel has those of a dense one."""
    if config.mainloop == "stream":
        return dense.memory(config)
    beside = lean_tiles.store_bytes(warpgroups(config), 16, swapped=True) + QUEUE + sum_bytes(config)
    stage = stage_bytes(config) + BARRIER
    fitting = min(lean_tiles.MOST_STAGES, (HOPPER_SHARED_MEMORY - beside) // stage)
    fitting -= fitting % config.k_groups
    stages = fitting if config.stages == "auto" else int(config.stages)
    return Memory(stages, max(stages, 2) * stage + beside)
