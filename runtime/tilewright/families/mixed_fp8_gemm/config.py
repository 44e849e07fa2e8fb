"""One `mixed_fp8_gemm` kernel: FP8 activations by packed 4-bit weights.

The kernel swaps its operands: the tile's M is along n, its N along m. Clusters and splits of k are arguments
of a launch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import OwnPdl, Stages, WgmmaTarget
from tilewright.families.mixed_gemm.config import MixedGemmFacts, WeightFormat

WIDTHS = (8, 16, 32, 48, 64, 80, 96, 112, 128)
"""Columns that one instruction multiplies (mixed_fp8_gemm/wgmma.hpp)."""
TURN_WIDTHS = (*WIDTHS, 144, 160)
"""The same for the schedule parts_in_turn, with the instructions of mixed_fp8_gemm/wide_wgmma.hpp."""
MOST_SUMS = 320
"""The most columns of promoted sums and of a part together. A thread has a register for half of them, of its
240, and one or two sets of 16 with decoded weights."""
MOST_SUMS_IN_TURN = 384
"""The same for the schedule parts_in_turn, whose threads keep one set of 16 and few addresses."""


@dataclass(frozen=True, slots=True)
class MixedFp8GemmConfig:
    """Everything that is decided when a `mixed_fp8_gemm` kernel is compiled."""

    arch: Annotated[WgmmaTarget, "architecture the kernel is compiled for"]
    d: Annotated[Literal["bf16", "f16"], "type of D and of the scales of integers"]
    weight_format: WeightFormat
    tile: Annotated[Tile, "tile of one thread block, MxNxK elements: M along n, N along m; K 128"]
    a: Annotated[Literal["e4m3"], "type of A"] = "e4m3"
    schedule: Annotated[
        Literal["at_will", "quick", "in_turn", "parts_in_turn", "ahead"],
        "at_will: warpgroups decode what they multiply. quick: the same with fewer instructions. in_turn: "
        "the same as at_will, and two of them multiply by a stage in turn. parts_in_turn: the same, a part "
        "of the columns at a time. ahead: a warpgroup of its own decodes for the two that multiply",
    ] = field(default="at_will", metadata=LEFT_OUT)
    balanced: Annotated[bool, "thread blocks multiply equally many stages of k"] = field(
        default=False, metadata=LEFT_OUT
    )
    width: Annotated[
        Literal["auto", 8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160],
        "columns that a warpgroup multiplies and promotes at once; auto: as many as registers allow",
    ] = field(default="auto", metadata=LEFT_OUT)
    fast_accum: Annotated[
        bool, "sums of all of k stay in the tensor core, with about 14 bits of precision: MXFP4 alone"
    ] = field(default=False, metadata=LEFT_OUT)
    k_groups: Annotated[Literal[1, 2], "groups of warpgroups, which take stages of k in turn"] = field(
        default=1, metadata=LEFT_OUT
    )
    block: Annotated[
        Literal["auto", 32],
        "elements of k that the tensor core sums before the sums are promoted; auto: a group of integers, or "
        "128 of MXFP4's",
    ] = field(default="auto", metadata=LEFT_OUT)
    stages: Stages = "auto"
    pdl: OwnPdl = True


CONFIG, FACTS = MixedFp8GemmConfig, MixedGemmFacts
