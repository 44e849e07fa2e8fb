"""One `hc_prenorm` kernel: D[m,n] = sum over k of A[m,k] B[n,k] in TF32, and the sums of A[m,k]^2.

Into how many splits k is cut, how thread blocks share the work, and whether D is normalised, a launch says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import AnyTarget, OwnPdl, PipelineFacts, Stages


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
