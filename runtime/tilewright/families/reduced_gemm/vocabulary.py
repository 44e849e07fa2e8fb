"""The words of `reduced_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import MATRIX_EXTENTS, Choice, Flag, Types, Words
from tilewright.families.reduced_gemm.problem import OUTPUTS, Problem

WORDS = Words(
    family="reduced_gemm",
    summary="D[m,n] = A[m,k] B[k,n], added up over a batch.",
    problem=Problem,
    extents=MATRIX_EXTENTS,
    types=Types(
        option="--dtype",
        default="bf16",
        fields={a: {"a": a, "b": b} for a, b in OUTPUTS},
        help="Type of A and B: bf16 (default), f16.",
    ),
    others=(
        Choice(
            "out_dtype",
            "Type of D. Default: the operands'.",
            lambda fields: OUTPUTS[fields["a"], fields["b"]],
            field="d",
        ),
        Flag("c", "Add C."),
    ),
)
