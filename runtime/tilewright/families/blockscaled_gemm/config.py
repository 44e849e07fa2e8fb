"""One `blockscaled_gemm` kernel.

D[m,n] = activation(
    alpha * sum over k of (A[m,k] * SFA[m,k/block]) (B[n,k] * SFB[n,k/block]) + beta * C[m,n] + bias[n])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, TypedDict

from tilewright.architectures import table
from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import (
    ONE_BLOCK,
    AnyTarget,
    ClusterMultiple,
    Clusters,
    MatrixAlignment,
    Pdl,
    PipelineFacts,
    Stages,
)
from tilewright.configurations.value_kinds import Bounds
from tilewright.families.blockscaled_gemm.problem import QUANTIZED_OUTPUTS, Format, Output
from tilewright.formats.types import bits

Schedule = Literal["1sm", "2sm", "cooperative", "pingpong"]
ULTRA_K = 768  # the tile depth that goes with FP4 instructions of K 96
ULTRA_MMA_K = 96
RUBIN_K, RUBIN_MMA_K = 256, 128  # of sm_107a's tiles, and of its FP4 instructions
RUBIN_RELEASE = "4.8"  # CUTLASS's, which has these instructions


class Architecture(NamedTuple):
    """The properties that kernels share if their architectures have the same tensor-core instructions."""

    name: str  # in messages
    schedules: tuple[Schedule, ...]
    least_stages: int  # fewest stages that its kernels support


HOPPER = Architecture("sm_90", ("cooperative",), 2)  # which has no FP4 instructions
TCGEN05 = Architecture("sm_100, sm_103 and sm_110", ("1sm", "2sm"), 1)
SM120 = Architecture("sm_12x", ("cooperative", "pingpong"), 2)
_BY_INSTRUCTION = {
    table.WGMMA.instruction: HOPPER,
    table.TCGEN05.instruction: TCGEN05,
    table.MMA_SYNC.instruction: SM120,
}


@dataclass(frozen=True, slots=True)
class BlockscaledGemmConfig:
    """Everything that is decided when a `blockscaled_gemm` kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    a: Annotated[
        Format,
        "format of A: nvfp4 is E2M1 in blocks of 16 with E4M3 scales; mxfp4 (E2M1), mxfp8 "
        "(E4M3) and mxfp8_e5m2 have blocks of 32 with UE8M0 scales",
    ]
    b: Annotated[Format, "format of B"]
    d: Annotated[
        Output,
        "type of D; nvfp4 and mxfp8 are quantised by the epilogue, which writes their scales; e4m3 and e5m2 "
        "have none",
    ]
    tile: Annotated[
        Tile,
        "tile of one thread block, MxNxK elements (2sm: two of them share an instruction); "
        "with swap_ab its M is along the caller's n",
    ]
    schedule: Annotated[
        Schedule,
        "sm_100, sm_103, sm_110: one SM or a pair issues an MMA. sm_90, sm_12x: warpgroups "
        "share a tile, or take turns with a tile each",
    ]
    c: Annotated[
        Literal["none", "same"],
        "no C at all, or one of D's type (bf16 beside a D of 4 or 8 bits), unread where beta = 0",
    ] = "none"
    cluster: Clusters = ONE_BLOCK
    scheduler: Annotated[
        Literal["data_parallel", "stream_k"], "how tiles are given to thread blocks; stream_k also splits k"
    ] = "data_parallel"
    store: Annotated[
        Literal["tma", "direct", "direct_256"],
        "how D leaves: through shared memory by TMA, or from registers 16 or 32 bytes at once",
    ] = "tma"
    prefetch: Annotated[
        Literal["tma", "none"],
        "sm_103's tiles of K 768, and the mainloop tcgen05: whether loads are announced to L2 ahead",
    ] = "tma"
    swap_ab: Annotated[bool, "compute D^T = B A^T, so that a small m meets the instruction's fine N"] = False
    pdl: Pdl = True
    stages: Stages = "auto"
    cutlass: Annotated[
        Literal["4.2", "4.5", "4.8"], "the oldest CUTLASS release that compiles the kernel"
    ] = "4.2"
    mainloop: Annotated[
        Literal["default", "mma", "tcgen05"],
        "default: CUTLASS's collectives on Blackwell, ours of wgmma on sm_90. mma: ours of mma.sync for "
        "sm_12x, which compiles in seconds, needs no CUTLASS and has tiles of N from 8; a call may leave out "
        "C, and a launch chooses the split of k. tcgen05: ours in CuTe-DSL for sm_100, sm_103 and sm_110, "
        "which compiles in seconds; without swap_ab only a call that names such a kernel runs it",
    ] = field(default="default", metadata=LEFT_OUT)
    bias: Annotated[bool, "add bias[n] of C's type; a call may leave it out"] = field(
        default=False, metadata=LEFT_OUT
    )
    activation: Annotated[
        Literal["none", "given"], "what is applied last: nothing, or the activation that a call names"
    ] = field(default="none", metadata=LEFT_OUT)

    @property
    def architecture(self) -> Architecture:
        """The architecture whose instructions the kernel has."""
        return _BY_INSTRUCTION[self.hardware.tensor_core.instruction]

    @property
    def hardware(self) -> table.Architecture:
        """The architecture that the kernel is compiled for."""
        return table.of_target(self.arch)

    @property
    def ultra(self) -> bool:
        """Whether the kernel is for sm_103's FP4 instructions of K 96."""
        return self.tile.k == ULTRA_K

    @property
    def rubin(self) -> bool:
        """Whether the kernel is for sm_107a, whose FP4 instructions have K of 128."""
        return self.hardware.tensor_core.fp4_k == RUBIN_MMA_K

    @property
    def quantizes(self) -> bool:
        """Whether the epilogue makes D's scale factors."""
        return self.d in QUANTIZED_OUTPUTS

    @property
    def mixes_bits(self) -> bool:
        """Whether one operand has 4 bits and the other 8."""
        return bits(self.a) != bits(self.b)


class _OfSomeKernels(TypedDict, total=False):
    cluster_multiple: ClusterMultiple
    splits: bool  # whether a kernel of the mainloop tcgen05 splits k


class BlockscaledGemmFacts(PipelineFacts, _OfSomeKernels):
    """Derived numbers that the runtime needs."""

    block: Annotated[int, Bounds(1, 128)]  # elements along k that share a scale factor
    alignment: MatrixAlignment


CONFIG, FACTS = BlockscaledGemmConfig, BlockscaledGemmFacts


def by_mma(config: BlockscaledGemmConfig) -> bool:
    """Whether the kernel has our mainloop of mma.sync."""
    return config.mainloop == "mma"


def by_tcgen05(config: BlockscaledGemmConfig) -> bool:
    """Whether the kernel has our mainloop of tcgen05."""
    return config.mainloop == "tcgen05"


def on(*those: Architecture) -> Callable[[BlockscaledGemmConfig], bool]:
    """A condition for rules: the kernel is for one of these architectures."""
    return lambda config: config.architecture in those
