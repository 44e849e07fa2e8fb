"""One `grouped_gemm` kernel.

D[m,n] = sum over k of A[m,k] SA[m,k/128] B[g,k,n] SB[g,k/128,n or n/128] + C[m,n], g the group of row m
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shared import (
    AnyTarget,
    ClusterMultiple,
    MatrixAlignment,
    OwnPdl,
    OwnTile,
    PipelineFacts,
    Stages,
    SwapAB,
)
from tilewright.families.grouped_gemm.problem import PACKED_SCALES, parts_on_tcgen05

NARROW_K = 64  # elements of FP8 in half a box


@dataclass(frozen=True, slots=True)
class GroupedGemmConfig:
    """Everything that is decided when a `grouped_gemm` kernel is compiled. How rows are grouped, clusters
    and splits of k are run-time arguments."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    a: Annotated[Literal["e4m3", "bf16", "mxfp4"], "type of A"]
    b: Annotated[Literal["e4m3", "bf16", "mxfp4"], "type of B"]
    d: Annotated[Literal["bf16", "f32"], "type of D, and of C where there is one"]
    scales: Annotated[
        Literal["none", "128x128", "1x128", "1x32_ue8m0", "1x128_ue8m0"],
        "what of B shares an F32 scale factor: blocks of 128 of n and k, or 128 of k of each "
        "n; of A it is 128 of k of each m. Or what of both operands shares a UE8M0 factor, by which the "
        "instruction of sm_12x multiplies, and that of sm_100: 32 or 128 of k. 16-bit operands have none",
    ]
    tile: OwnTile
    swap_ab: SwapAB = False
    layout: Annotated[
        Literal["tn", "tt", "nt"],
        "layouts of A and B as BLAS writes them: A is t where k is contiguous (row-major), B is n where k is "
        "(column-major)",
    ] = "tn"
    promotion: Annotated[
        Literal["after", "in_turn", "overlapped", "halves"],
        "when sums of 128 of k are scaled and added up. after: when they are done; in_turn: so, by two "
        "warpgroups in turn; overlapped: while those of the next 128 are computed, in other registers; "
        "halves: those of one half of the columns while the other half's are computed",
    ] = "after"
    store_buffers: Annotated[
        Literal["auto", 1, 2, 3, 4],
        "epilogue subtiles of D that a warpgroup has on their way to memory; auto: two, or more if they cost "
        "no stage",
    ] = "auto"
    pdl: OwnPdl = True
    stages: Stages = "auto"
    mainloop: Annotated[
        Literal["lean", "mma", "tcgen05"],
        "lean multiplies by wgmma; mma by mma.sync, without clusters and splits of k, for sm_12x (and for "
        "sm_90a, to be tried there); tcgen05 is CUTLASS's collective of groups for sm_100",
    ] = field(default="lean", metadata=LEFT_OUT)
    constant_b: Annotated[
        bool,
        "B is constant while kernels run, as the caller promises: its first stages are loaded before the "
        "previous kernel ends. Dense products alone",
    ] = field(default=False, metadata=LEFT_OUT)
    schedule: Annotated[
        Literal["1sm", "2sm"], "tcgen05: one SM or a pair issues an MMA, of tiles that are a thread block's"
    ] = field(default="1sm", metadata=LEFT_OUT)


class _OfRunTimeClusters(TypedDict, total=False):
    cluster_multiple: ClusterMultiple


class GroupedGemmFacts(PipelineFacts, _OfRunTimeClusters):
    """Derived numbers that the runtime needs."""

    # Whether sums fit into the stages: to be added up along k, or to a 16-bit C. A kernel of mma.sync adds a
    # 16-bit C to registers, and does not split k.
    splits: bool
    alignment: MatrixAlignment


CONFIG, FACTS = GroupedGemmConfig, GroupedGemmFacts


def by_mma(config: GroupedGemmConfig) -> bool:
    """Whether the kernel multiplies by mma.sync (grouped_gemm/mma_kernel.hpp)."""
    return config.mainloop == "mma"


def by_tcgen05(config: GroupedGemmConfig) -> bool:
    """Whether the kernel is CUTLASS's collective of groups (grouped_gemm/tcgen05.hpp)."""
    return config.mainloop == "tcgen05"


def packed(config: GroupedGemmConfig) -> bool:
    """Whether scale factors are UE8M0, by which the instruction multiplies
    (grouped_gemm/packed_kernel.hpp)."""
    return config.scales in PACKED_SCALES


def by_parts(config: GroupedGemmConfig) -> bool:
    """Whether groups of a kernel of tcgen05 may divide k, too (grouped_gemm/tcgen05_parts.hpp)."""
    return by_tcgen05(config) and parts_on_tcgen05(config.scales, config.d)


def fp4(config: GroupedGemmConfig) -> bool:
    """Whether an operand is of FP4 (grouped_gemm/fp4_kernel.hpp)."""
    return "mxfp4" in {config.a, config.b}


def narrow(config: GroupedGemmConfig) -> bool:
    """Whether FP8's stages have half a box, 64 bytes of k (grouped_gemm/narrow_kernel.hpp)."""
    return packed(config) and by_mma(config) and not fp4(config) and config.tile.k == NARROW_K


def own_scales(config: GroupedGemmConfig) -> tuple[str, str]:
    """What shares a scale factor in the kernel's own A and in its B: `rows`, `blocks` or `none`."""
    if config.scales == "none":
        return "none", "none"
    if packed(config):
        return "rows", "rows"
    b = "blocks" if config.scales == "128x128" else "rows"
    return (b, "rows") if config.swap_ab else ("rows", b)
