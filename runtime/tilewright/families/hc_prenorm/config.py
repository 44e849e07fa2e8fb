"""One `hc_prenorm` kernel: D[m,n] = sum over k of A[m,k] B[n,k] in TF32, and the sums of A[m,k]^2.

A launch says into how many splits k is cut, how thread blocks share the work, and whether D is normalised.
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
        "wgmma: reads B from shared memory, on sm_90a only. sync: mma.sync, on any architecture; each warp "
        "reads B into its registers",
    ] = "sync"
    warp_rows: Annotated[
        Literal[16, 32, 64], "rows of a warp; with more rows a warp reads B less often. With wgmma: 16"
    ] = 16
    stages: Stages = "auto"
    pdl: OwnPdl = True


CONFIG, FACTS = PrenormConfig, PipelineFacts


def warps(config: PrenormConfig) -> int:
    """The warps that multiply. One more warp loads."""
    return config.tile.m // config.warp_rows
