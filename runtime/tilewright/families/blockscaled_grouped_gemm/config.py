"""One `blockscaled_grouped_gemm` kernel.

D[m,n] = alpha[g] * sum over k of (A[m,k] * SFA[m,k/block]) (B[g,n,k] * SFB[g,n,k/block]), where g is the
group of row m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.architectures.table import TCGEN05, targets
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import (
    ClusterMultiple,
    MatrixAlignment,
    PipelineFacts,
    Stages,
    SwapAB,
)
from tilewright.configurations.value_kinds import Bounds, OneOf
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.problem import Format

TcgenTarget = Annotated[str, OneOf(targets(TCGEN05))]


@dataclass(frozen=True, slots=True)
class BlockscaledGroupedGemmConfig:
    """Everything that is decided when a `blockscaled_grouped_gemm` kernel is compiled. How rows are grouped
    and clusters are run-time arguments."""

    arch: Annotated[TcgenTarget, "architecture the kernel is compiled for"]
    a: Annotated[
        Format,
        "format of A: nvfp4 is E2M1 in blocks of 16 with E4M3 scales; mxfp4 (E2M1), mxfp8 "
        "(E4M3) and mxfp8_e5m2 have blocks of 32 with UE8M0 scales",
    ]
    b: Annotated[Format, "format of B"]
    d: Annotated[Literal["bf16", "f16", "f32"], "type of D"]
    tile: Annotated[
        Tile,
        "tile of one thread block, MxNxK elements (2sm: two of them share an instruction); "
        "with swap_ab its M is along the caller's n",
    ]
    schedule: Annotated[Literal["1sm", "2sm"], "one SM or a pair issues an MMA"]
    swap_ab: SwapAB = False
    stages: Stages = "auto"


class BlockscaledGroupedGemmFacts(PipelineFacts):
    """Derived numbers that the runtime needs."""

    block: Annotated[int, Bounds(1, 128)]  # elements along k that share a scale factor
    alignment: MatrixAlignment
    cluster_multiple: ClusterMultiple


CONFIG, FACTS = BlockscaledGroupedGemmConfig, BlockscaledGroupedGemmFacts


def product(config: BlockscaledGroupedGemmConfig) -> BlockscaledGemmConfig:
    """The kernel of `blockscaled_gemm` that computes one group's product."""
    return BlockscaledGemmConfig(
        config.arch, config.a, config.b, config.d, config.tile, config.schedule,
        cluster="dynamic", swap_ab=config.swap_ab, pdl=False, stages=config.stages,
    )  # fmt: skip
