"""The words of `blockscaled_grouped_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.groups import GROUPINGS
from tilewright.declarations.vocabulary import Choice, Extent, Fields, Flag, Types, Words
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS, SCALE_ROWS, Problem
from tilewright.formats.types import bits

_PAIRS = {a if a == b else f"{a}x{b}": {"a": a, "b": b} for a, b in OUTPUTS}


def _outputs(fields: Fields) -> tuple[str, ...]:
    return OUTPUTS[fields["a"], fields["b"]]


def _multiple_of_k(fields: Fields) -> int:
    """Elements in a byte."""
    return 8 // min(bits(fields["a"]), bits(fields["b"]))


WORDS = Words(
    family="blockscaled_grouped_gemm",
    summary="D[m,n] = alpha[g] (A SFA)[m,k] (B SFB)[g,k,n], g the group of row m.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D: of all groups, or of each where each has its own.", usual=4096),
        Extent("n", "Columns of B and D.", usual=4096),
        Extent(
            "k", "Columns of A, rows of B.", usual=7168, multiple=_multiple_of_k,
            because="two elements of FP4 share a byte",
        ),
        Extent("groups", "Number of matrices of B.", usual=8, default=1),
        Extent(
            "expected_m", "Rows of a group that are expected to count. Default: all.",
            usual=20, default=0, hint=True,
        ),
        Extent(
            "row_alignment", "Groups begin at multiples of this.",
            usual=SCALE_ROWS, default=SCALE_ROWS, hint=True,
        ),
    ),
    types=Types(
        option="--formats",
        default="nvfp4",
        fields=_PAIRS,
        help=f"Formats of A and B: {', '.join(_PAIRS)}; default nvfp4.",
    ),
    others=(
        Choice("out_dtype", "Type of D: bf16 (default), f16 or f32.", _outputs, field="d"),
        Choice("grouping", f"Which rows are of which group: {', '.join(GROUPINGS)}; default ends.",
               ("ends", "row_index", "rows_valid")),
        Flag("scale_begins", "The scale factors of each group of A begin at a row of their own."),
    ),
)  # fmt: skip
