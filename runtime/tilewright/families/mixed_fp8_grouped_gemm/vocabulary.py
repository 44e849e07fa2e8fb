"""The words of `mixed_fp8_grouped_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Flag, Words
from tilewright.families.mixed_fp8_gemm.problem import FORMATS
from tilewright.families.mixed_fp8_gemm.vocabulary import RESULTS
from tilewright.families.mixed_fp8_gemm.vocabulary import WORDS as DENSE
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_grouped_gemm.vocabulary import WORDS as GROUPED

WORDS = Words(
    family="mixed_fp8_grouped_gemm",
    summary="D[m,n] = A[m,k] W[g,n,k] of FP8 and 4-bit weights, g the group of row m.",
    problem=Problem,
    extents=GROUPED.extents,
    types=DENSE.types,
    others=(
        Choice("weight_format", f"Format of W: {', '.join(FORMATS)}.", FORMATS),
        next(word for word in GROUPED.others if word.name == "grouping"),
        Choice("out_dtype", f"Type of D: {', '.join(RESULTS)}.", RESULTS, field="d"),
        Flag("a_scale", "A factor for each row of A."),
        next(word for word in DENSE.others if word.name == "fast_accum"),
        Flag("bias", "Add a bias."),
    ),
)
