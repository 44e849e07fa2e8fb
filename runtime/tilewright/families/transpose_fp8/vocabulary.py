"""The words of `transpose_fp8` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Extent, Types, Words
from tilewright.families.transpose_fp8.problem import TYPES, Problem

WORDS = Words(
    family="transpose_fp8",
    summary="Transposes FP8 matrices.",
    problem=Problem,
    extents=(
        Extent("rows", "Rows of x: k of an operand that has m or n contiguous.", usual=4096),
        Extent("columns", "Columns of x.", usual=7168),
        Extent("batch", "Number of matrices.", usual=1, default=1),
    ),
    types=Types(
        option="--dtype",
        default="e4m3",
        fields={name: {"type": name} for name in TYPES},
        help="Type of the elements: e4m3 (default), e5m2.",
    ),
)
