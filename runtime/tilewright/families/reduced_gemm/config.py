"""One `reduced_gemm` kernel: products that are added up over a batch. A launch says into how many parts the
work is divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.architectures.table import MMA_SYNC, has_tensor_core
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import MatrixTarget, OwnPdl, PipelineFacts

K = 64  # elements of 16 bits in the 128 bytes of a row of a box


@dataclass(frozen=True, slots=True)
class ReducedConfig:
    """Everything that is decided when a `reduced_gemm` kernel is compiled."""

    arch: Annotated[MatrixTarget, "architecture the kernel is compiled for"]
    a: Annotated[Literal["bf16", "f16"], "type of A and B, and of D and C unless they are f32"]
    tile: Annotated[Tile, "tile of one thread block, MxNx64 elements"]
    pdl: OwnPdl = True


CONFIG, FACTS = ReducedConfig, PipelineFacts


def by_mma(config: ReducedConfig) -> bool:
    """Whether the kernel multiplies by mma.sync, without clusters (reduced_gemm/mma_kernel.hpp)."""
    return has_tensor_core(config.arch, MMA_SYNC)
