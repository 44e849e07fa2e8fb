"""The shared memory of a `reduced_gemm` kernel."""

from __future__ import annotations

from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, SM120_SHARED_MEMORY, Memory
from tilewright.families.reduced_gemm.config import ReducedConfig, by_mma


def block_bytes(config: ReducedConfig) -> int:
    """The most shared memory of a thread block."""
    return SM120_SHARED_MEMORY if by_mma(config) else HOPPER_SHARED_MEMORY


def memory(config: ReducedConfig) -> Memory:
    """The stages that fit, and the shared memory of the kernel in bytes, as `sm90/pipeline.hpp` lays it out.

    Every generated file asserts the total against the compiler's."""
    stage = (config.tile.m + config.tile.n) * 128 + BARRIER
    stages = block_bytes(config) // stage
    return Memory(stages, stages * stage)
