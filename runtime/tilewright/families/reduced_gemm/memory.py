"""The shared memory of a `reduced_gemm` kernel."""

from __future__ import annotations

from tilewright.configurations.shared import BARRIER, HOPPER_SHARED_MEMORY, Memory
from tilewright.families.reduced_gemm.config import ReducedConfig


def memory(config: ReducedConfig) -> Memory:
    """Stages, as many as shared memory holds, and its bytes, as `sm90/pipeline.hpp` lays them out.

    Every generated file asserts the total against the compiler's."""
    stage = (config.tile.m + config.tile.n) * 128 + BARRIER
    stages = HOPPER_SHARED_MEMORY // stage
    return Memory(stages, stages * stage)
