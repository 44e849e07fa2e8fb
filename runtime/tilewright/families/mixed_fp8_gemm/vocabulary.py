"""The words of `mixed_fp8_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Flag, Types, Words
from tilewright.families.mixed_fp8_gemm.problem import FORMATS, OUTPUTS, Problem
from tilewright.families.mixed_gemm.problem import ACTIVATIONS
from tilewright.families.mixed_gemm.vocabulary import WORDS as DENSE

((A,), RESULTS) = next(iter(OUTPUTS.items()))

WORDS = Words(
    family="mixed_fp8_gemm",
    summary="D[m,n] = A[m,k] W[n,k] of FP8 and 4-bit weights.",
    problem=Problem,
    extents=DENSE.extents,
    types=Types(option="--dtype", default=A, fields={A: {"a": A}}, help=f"Type of A: {A}."),
    others=(
        Choice("weight_format", f"Format of W: {', '.join(FORMATS)}.", FORMATS),
        Choice("out_dtype", f"Type of D: {', '.join(RESULTS)}.", RESULTS, field="d"),
        Flag("a_scale", "A factor for each row of A."),
        Flag("fast_accum", "MXFP4: sums may stay in the tensor core, with about 14 bits."),
        Flag("bias", "Add a bias."),
        Choice("activation", f"{', '.join(ACTIVATIONS)}.", ACTIVATIONS),
    ),
)
