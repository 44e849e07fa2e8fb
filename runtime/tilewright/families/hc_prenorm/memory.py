"""The shared memory of an `hc_prenorm` kernel."""

from __future__ import annotations

from tilewright.architectures.table import of_target
from tilewright.configurations.shared import BARRIER, Memory
from tilewright.families.hc_prenorm.config import PrenormConfig

_MOST_STAGES = 16  # more stages in flight than any load needs


def memory(config: PrenormConfig) -> Memory:
    """Stages of A in BF16 and of B in F32, with two barriers each (`Layout` of hc_prenorm/kernel.hpp).

    Every generated file asserts the total against the compiler's."""
    m, n, k = config.tile
    stage = m * k * 2 + n * k * 4 + BARRIER
    most = min(_MOST_STAGES, of_target(config.arch).shared_memory.block // stage)
    stages = most if config.stages == "auto" else int(config.stages)
    return Memory(stages, stages * stage)
