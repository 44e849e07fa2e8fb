"""One `gemm` kernel.

D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from tilewright.configurations.shared import (
    ONE_BLOCK,
    ClusterMultiple,
    Clusters,
    MatrixAlignment,
    MatrixTarget,
    Multiple,
    OwnTile,
    Pdl,
    PipelineFacts,
    Stages,
    SwapAB,
)

Operand = Literal["bf16", "f16", "e4m3", "e5m2", "tf32", "s8"]
Output = Literal["bf16", "f16", "f32", "s32", "e4m3", "e5m2"]
Accumulator = Literal["f32", "s32"]


@dataclass(frozen=True, slots=True)
class GemmConfig:
    """Everything that is decided when a `gemm` kernel is compiled."""

    arch: Annotated[MatrixTarget, "architecture the kernel is compiled for"]
    a: Annotated[Operand, "type of A; tf32 reads f32 tensors"]
    b: Annotated[Operand, "type of B; tf32 reads f32 tensors"]
    d: Annotated[
        Output,
        "type of D; with a CUTLASS mainloop of C and the bias too, which a lean one takes in "
        "bf16, f16 or f32, as a call gives them",
    ]
    tile: OwnTile
    mainloop: Annotated[
        Literal["cutlass", "lean", "stream", "mma"],
        "CUTLASS's collectives; or mainloops of ours, which compile in a second or two: lean "
        "takes tiles N in steps of 8, and leaves clusters and the splitting of k to run time; stream is "
        "for up to 8 rows, and reads B straight into registers; mma is lean by mma.sync, without clusters, "
        "for sm_12x (and for sm_90a, to be tried there)",
    ] = "cutlass"
    acc: Annotated[Accumulator, "type in which products are summed"] = "f32"
    c: Annotated[Literal["same", "none"], "C, which beta = 0 leaves unread; or no C at all"] = "same"
    layout: Annotated[
        Literal["tn", "tt", "nn", "nt"],
        "layouts of A and B as BLAS writes them: A is t where k is contiguous (row-major), "
        "B is n where k is contiguous (column-major)",
    ] = "tn"
    cluster: Clusters = ONE_BLOCK
    schedule: Annotated[
        Literal["cooperative", "pingpong"],
        "two consumer warpgroups share a tile, or take turns with a tile each",
    ] = "cooperative"
    scheduler: Annotated[
        Literal["data_parallel", "stream_k"],
        "how tiles are given to persistent thread blocks; stream_k also splits k",
    ] = "data_parallel"
    fast_accum: Annotated[bool, "FP8 sums stay in the tensor core, which keeps about 14 bits of them"] = False
    swap_ab: SwapAB = False
    bias: Annotated[bool, "add bias[n]; a call may leave it out"] = False
    activation: Annotated[
        Literal["none", "relu", "gelu", "silu", "given"],
        "applied last; gelu is the exact one (erf); given: of kernels of ours, whichever a call asks for",
    ] = "none"
    pdl: Pdl = True
    stages: Stages = "auto"


class LeanFacts(TypedDict, total=False):
    """What follows from the configuration of a kernel with the lean mainloop."""

    cluster_multiple: ClusterMultiple
    splits: bool  # whether it splits k
    pieces: Multiple  # of a warpgroup's tile, which the parts of a split k share out


class GemmFacts(PipelineFacts, LeanFacts):
    """Derived numbers that the runtime needs."""

    alignment: MatrixAlignment


CONFIG, FACTS = GemmConfig, GemmFacts


def with_mainloop(*names: str) -> Callable[[GemmConfig], bool]:
    """Whether a kernel has one of these mainloops: what rules are asked `of`."""
    return lambda config: config.mainloop in names


CUTLASS, LEAN, STREAM, MMA = map(with_mainloop, ("cutlass", "lean", "stream", "mma"))
TILED = with_mainloop("cutlass", "lean", "mma")  # by warpgroups
BOXED = with_mainloop("lean", "mma")  # stages of boxes of 128 bytes of k, and the epilogue of sm90/
