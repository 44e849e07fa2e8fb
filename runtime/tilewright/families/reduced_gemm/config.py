"""One `reduced_gemm` kernel: products that are added up over a batch. Parts are counted at a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import OwnPdl, PipelineFacts, WgmmaTarget

K = 64  # elements of 16 bits in the 128 bytes of a row of a box


@dataclass(frozen=True, slots=True)
class ReducedConfig:
    """Everything that is decided when a `reduced_gemm` kernel is compiled."""

    arch: Annotated[WgmmaTarget, "architecture the kernel is compiled for"]
    a: Annotated[Literal["bf16", "f16"], "type of A and B, and of D and C unless they are f32"]
    tile: Annotated[Tile, "tile of one thread block, MxNx64 elements"]
    pdl: OwnPdl = True


CONFIG, FACTS = ReducedConfig, PipelineFacts
