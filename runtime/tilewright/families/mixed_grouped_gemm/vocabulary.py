"""The words of `mixed_grouped_gemm` problems."""

from __future__ import annotations

from dataclasses import replace

from tilewright.declarations.groups import GROUPINGS
from tilewright.declarations.vocabulary import Choice, Extent, Flag, Types, Words
from tilewright.families.mixed_gemm.vocabulary import FORMAT, K, N
from tilewright.families.mixed_grouped_gemm.problem import ACTIVATIONS, OUTPUTS, Problem

WORDS = Words(
    family="mixed_grouped_gemm",
    summary="D[m,n] = A[m,k] W[g,n,k] of packed weights, g the group of row m.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D: of all groups, or of each where each has its own.", usual=256),
        replace(N, usual=4096),
        replace(K, usual=2048),
        Extent("groups", "Number of weights.", usual=8, default=1),
        Extent(
            "expected_m", "Rows of a group that are expected to count. Default: all.",
            usual=20, default=0, hint=True,
        ),
        Extent("row_alignment", "Groups begin at multiples of this.", usual=1, default=1, hint=True),
    ),
    types=Types(
        option="--dtype",
        default="bf16",
        fields={a: {"a": a, "d": outputs[0]} for (a,), outputs in OUTPUTS.items()},
        help="Type of A and D: bf16 or f16.",
    ),
    others=(
        FORMAT,
        Choice("grouping", f"Which rows are of which group: {', '.join(GROUPINGS)}.",
               ("ends", "row_index", "rows_valid")),
        Flag("bias", "Add a bias."),
        Choice("activation", f"{', '.join(ACTIVATIONS)}.", ACTIVATIONS),
    ),
)  # fmt: skip
