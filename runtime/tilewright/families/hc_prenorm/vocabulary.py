"""The words of `hc_prenorm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Extent, Flag, Types, Words
from tilewright.families.hc_prenorm.problem import Problem

WORDS = Words(
    family="hc_prenorm",
    summary="D[m,n] = A[m,k] B[n,k] in TF32, and sums of A[m,k]^2.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D.", usual=4096),
        Extent(
            "n", "Rows of B, columns of D: at most 128.", usual=24, multiple=lambda _: 8,
            because="the tensor core takes 8 columns at a time",
        ),
        Extent(
            "k", "Columns of A and B.", usual=7168, multiple=lambda _: 8,
            because="TMA reads rows that begin at multiples of 16 bytes",
        ),
        Extent("splits", "Parts of k; the sums of each are written separately.", usual=1, default=1),
    ),
    types=Types(
        option="--dtype",
        default="bf16",
        fields={"bf16": {}},
        help="Type of A: bf16; B is f32.",
    ),
    others=(Flag("normalize", "Divide D by the root of its rows' mean squares."),),
)  # fmt: skip
