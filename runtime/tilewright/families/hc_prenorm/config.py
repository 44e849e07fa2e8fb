"""One `hc_prenorm` kernel: D[m,n] = sum over k of A[m,k] B[n,k] in TF32, and the sums of A[m,k]^2.

Into how many splits k is cut, how thread blocks share the work, and whether D is normalised, a launch says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.architectures.table import of_target
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import BARRIER, AnyTarget, Memory, OwnPdl, PipelineFacts, Stages

_MOST_STAGES = 16  # more in flight than any load takes


@dataclass(frozen=True, slots=True)
class PrenormConfig:
    """Everything that is decided when an `hc_prenorm` kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    tile: Annotated[Tile, "tile of one thread block, MxNx64 elements; N, a multiple of 8, holds all of n"]
    mma: Annotated[
        Literal["wgmma", "sync"],
        "wgmma, which reads B from shared memory, sm_90a alone; or mma.sync, for any "
        "architecture, whose warps read B each for themselves",
    ] = "sync"
    warp_rows: Annotated[
        Literal[16, 32, 64], "rows of a warp: more share what it reads of B; of wgmma it is 16"
    ] = 16
    stages: Stages = "auto"
    pdl: OwnPdl = True


CONFIG, FACTS = PrenormConfig, PipelineFacts


def warps(config: PrenormConfig) -> int:
    """Warps that multiply; one more loads."""
    return config.tile.m // config.warp_rows


def memory(config: PrenormConfig) -> Memory:
    """Stages of A in BF16 and of B in F32, with two barriers each (`Layout` of hc_prenorm/kernel.hpp).

    Every generated file asserts the total against the compiler's."""
    m, n, k = config.tile
    stage = m * k * 2 + n * k * 4 + BARRIER
    most = min(_MOST_STAGES, of_target(config.arch).shared_memory.block // stage)
    stages = most if config.stages == "auto" else int(config.stages)
    return Memory(stages, stages * stage)
