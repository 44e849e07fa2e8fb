"""The words of `mixed_grouped_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Extent, Flag, Types, Words
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.families.mixed_grouped_gemm.problem import GROUPINGS, OUTPUTS, Problem

WORDS = Words(
    family="mixed_grouped_gemm",
    summary="D[m,n] = A[m,k] W[g,n,k] of packed weights, g the group of row m.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D: of all groups, or of each where each has its own.", usual=256),
        Extent(
            "n", "Rows of W, columns of D.", usual=4096, multiple=lambda _: 8,
            because="packed weights have rows in units of 8",
        ),
        Extent(
            "k", "Columns of A and W.", usual=2048, multiple=lambda _: 32,
            because="packed weights have columns in units of 32",
        ),
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
        Choice("weight_format", f"Format of W: {', '.join(FORMATS)}.", tuple(FORMATS)),
        Choice("grouping", f"Which rows are of which group: {', '.join(GROUPINGS)}.",
               ("ends", "row_index", "rows_valid")),
        Flag("bias", "Add a bias."),
    ),
)  # fmt: skip
