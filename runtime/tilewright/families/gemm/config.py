"""One `gemm` kernel.

D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shared import (
    ONE_BLOCK,
    AnyTarget,
    ClusterMultiple,
    Clusters,
    MatrixAlignment,
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

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    a: Annotated[Operand, "type of A; tf32 reads f32 tensors"]
    b: Annotated[Operand, "type of B; tf32 reads f32 tensors"]
    d: Annotated[
        Output,
        "type of D. CUTLASS's kernels have C and the bias of this type; ours take either in bf16, f16 or f32",
    ]
    tile: OwnTile
    mainloop: Annotated[
        Literal["cutlass", "lean", "stream", "mma", "cute_dsl", "tcgen05"],
        "cutlass: CUTLASS's collectives. The others are ours and compile in seconds. lean: tile N in "
        "steps of 8; a launch chooses the cluster and the split of k. stream: up to 8 rows; reads B straight "
        "into registers. mma: lean by mma.sync, without clusters, for sm_12x (and sm_90a, for tests). "
        "cute_dsl: in CuTe-DSL, whose compiler is an extra; only a call that names such a kernel runs it. "
        "tcgen05: in CuTe-DSL, for sm_100, sm_103 and sm_110",
    ] = "cutlass"
    acc: Annotated[Accumulator, "type in which products are summed"] = "f32"
    c: Annotated[
        Literal["same", "none"], "same: adds beta * C (a beta of 0 leaves C unread); none: there is no C"
    ] = "same"
    layout: Annotated[
        Literal["tn", "tt", "nn", "nt"],
        "layouts of A and B as BLAS writes them: A is t where k is contiguous (row-major), "
        "B is n where k is contiguous (column-major)",
    ] = "tn"
    cluster: Clusters = ONE_BLOCK
    schedule: Annotated[
        Literal["cooperative", "pingpong", "1sm", "2sm"],
        "cooperative: two consumer warpgroups share a tile; pingpong: they compute a tile each, in turns. "
        "tcgen05: the SMs that an MMA runs on",
    ] = "cooperative"
    scheduler: Annotated[
        Literal["data_parallel", "stream_k"],
        "how persistent thread blocks get their tiles; stream_k also splits k",
    ] = "data_parallel"
    fast_accum: Annotated[bool, "FP8 sums stay in the tensor core, with about 14 bits of precision"] = False
    swap_ab: SwapAB = False
    bias: Annotated[bool, "add bias[n]; a call may leave it out"] = False
    activation: Annotated[
        Literal["none", "relu", "gelu", "silu", "given", "silu_mul"],
        "function that is applied last; gelu is the exact one (erf); given (our kernels): by the call; "
        "silu_mul (lean kernels): silu of D's first half times the other, D has half as many columns",
    ] = "none"
    pdl: Pdl = True
    stages: Stages = "auto"
    plain_forms: Annotated[
        bool,
        "a lean kernel with a D of 16 bits has short copies of its code for products with nothing added, "
        "scaled or split",
    ] = field(default=False, metadata=LEFT_OUT)
    split_form: Annotated[
        bool,
        "a kernel with plain forms also has short code for products whose k is split, in a cluster or "
        "through a workspace",
    ] = field(default=False, metadata=LEFT_OUT)


class LeanFacts(TypedDict, total=False):
    """What follows from the configuration of a kernel with the lean mainloop."""

    cluster_multiple: ClusterMultiple
    splits: bool  # whether it splits k
    subtiles: Multiple  # epilogue subtiles of a warpgroup's tile, which the k ranges of a cluster share


class GemmFacts(PipelineFacts, LeanFacts):
    """Derived numbers that the runtime needs."""

    alignment: MatrixAlignment


CONFIG, FACTS = GemmConfig, GemmFacts


def with_mainloop(*names: str) -> Callable[[GemmConfig], bool]:
    """A condition for rules: the kernel has one of these mainloops."""
    return lambda config: config.mainloop in names


CUTLASS, LEAN, STREAM, MMA = map(with_mainloop, ("cutlass", "lean", "stream", "mma"))
CUTE_DSL = with_mainloop("cute_dsl")
TCGEN05 = with_mainloop("tcgen05")
TILED = with_mainloop("cutlass", "lean", "mma", "cute_dsl")  # tiles are divided among warpgroups
BOXED = with_mainloop("lean", "mma")  # stages of boxes of 128 bytes of k, and the epilogue of sm90/
