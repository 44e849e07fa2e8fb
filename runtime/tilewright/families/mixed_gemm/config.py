"""One `mixed_gemm` kernel: 16-bit activations by packed 4-bit or 8-bit weights.

The kernel swaps its operands: the tile's M is along n, its N along m. Clusters and splits of k are arguments
of a launch; a stream kernel has splits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import (
    MatrixAlignment,
    OwnPdl,
    SharedBytes,
    StageCount,
    Stages,
    Threads,
    WgmmaTarget,
)
from tilewright.families.mixed_gemm.problem import SILU_MUL

Format = Literal[
    "int4_g32", "int4_g64", "int4_g128", "int4_zp_g32", "int4_zp_g64", "int4_zp_g128", "mxfp4", "nvfp4",
    "int8_g128", "e4m3_g128",
]  # fmt: skip
WeightFormat = Annotated[
    Format, "format of the packed weight; g128: 128 of k share a scale; zp: with zero points"
]


@dataclass(frozen=True, slots=True)
class MixedGemmConfig:
    """Everything that is decided when a `mixed_gemm` kernel is compiled."""

    arch: Annotated[WgmmaTarget, "architecture the kernel is compiled for"]
    a: Annotated[Literal["bf16", "f16"], "type of A"]
    weight_format: WeightFormat
    tile: Annotated[Tile, "tile of one thread block, MxNxK elements: M along n, N along m; K 64 or 128"]
    mainloop: Annotated[
        Literal["wgmma", "stream", "balanced"],
        "wgmma: any number of rows. stream: up to N rows, 8 to 32, by mma.sync; each warp loads and "
        "multiplies stages of its own. balanced: wgmma whose thread blocks multiply equally many stages of k",
    ] = field(default="wgmma", metadata=LEFT_OUT)
    d: Annotated[Literal["same", "f32"], "type of D: that of A, or f32"] = field(
        default="same", metadata=LEFT_OUT
    )
    k_groups: Annotated[
        Literal[1, 2, 4], "groups of warpgroups that take stages of k in turn, so that more warps decode"
    ] = 1
    warps: Annotated[Literal[4, 8, 16], "warps of a stream kernel, which divide k"] = field(
        default=8, metadata=LEFT_OUT
    )
    schedule: Annotated[
        Literal["at_will", "early", "in_turn"],
        "at_will: warpgroups load a piece of 64 of k before they decode it. early: they load a stage before. "
        "in_turn: the same, and they multiply one after the other",
    ] = field(default="at_will", metadata=LEFT_OUT)
    stages: Stages = "auto"
    pdl: OwnPdl = True
    activation: Annotated[
        Literal["given", "silu_mul"],
        "function that is applied last. given: by the call. silu_mul: silu(gate) * up of a gated weight",
    ] = field(default="given", metadata=LEFT_OUT)


def with_mainloop(*names: str) -> Callable[[MixedGemmConfig], bool]:
    """Whether a kernel has one of these mainloops: what rules apply to."""
    return lambda config: config.mainloop in names


WGMMA, STREAM = with_mainloop("wgmma", "balanced"), with_mainloop("stream")


def is_gated(config: MixedGemmConfig) -> bool:
    """Whether D has a column for a row of gate and one of up."""
    return config.activation == SILU_MUL


def has_40_columns(config: MixedGemmConfig) -> bool:
    """Whether the kernel's source includes the wgmma of 40 columns (mixed_gemm/wgmma_40.hpp)."""
    return config.tile.n == 40 and config.mainloop == "balanced" and is_gated(config)


def type_of_d(config: MixedGemmConfig) -> str:
    """The type of D."""
    return config.a if config.d == "same" else config.d


class MixedGemmFacts(TypedDict):
    """Derived numbers of a kernel."""

    stages: StageCount
    smem_bytes: SharedBytes
    threads: Threads
    splits: bool
    alignment: MatrixAlignment


CONFIG, FACTS = MixedGemmConfig, MixedGemmFacts
