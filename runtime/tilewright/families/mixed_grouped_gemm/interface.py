"""The arguments that a kernel of `mixed_grouped_gemm` takes."""

from __future__ import annotations

from typing import Any

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.mixed_grouped_gemm.problem import GROUPINGS, OUTPUTS
from tilewright.families.mixed_grouped_gemm.vocabulary import WORDS


def _batch(problem: Any) -> str:
    """The batch of A and D: each group has rows of its own, or they share what there is."""
    return "groups" if problem.grouping == "rows_valid" else ""


GROUPING = Codes(
    "tilewright_mixed_grouping", GROUPINGS,
    notes={
        "row_index": "group_of_row",
        "ends": "group_ends",
        "rows_valid": "rows_valid of the m rows that each group has in A and in D",
    },
)  # fmt: skip
INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `mixed_grouped_gemm` kernel, in the caller's terms:

  D[m,n] = alpha * F[g] * sum over k of A[m,k] W[g,n,k] + bias[g,n]

g is the group of row m. W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows
of W, and a group's rows follow those of the group before.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        Matrix(
            "a", "[m, k], k contiguous; a batch of such where each group has its own",
            rows="m", columns="k", batch=_batch, type="a",
        ),
        Packed(
            "weight", "packed elements: [groups, n / 64, k / 128 * 4096 (8 bits: 8192)] bytes, rounded up",
            extents=("groups", "slices", "weight_bytes"), type="u8", alignment=16, measured=True,
        ),
        Packed(
            "scale", "packed scales, and zero points",
            extents=("groups", "slices", "scale_bytes"), type="u8", alignment=16,
        ),
        Matrix(
            "out", "[m, n], n contiguous; a batch as A's", field="d",
            rows="m", columns="n", batch=_batch, type="d", written=True,
        ),
        Packed("bias", "[groups, n] of D's type, or null", extents=("groups", "n"), type="d"),
        Packed(
            "group_factors", "[groups]: a factor of each group's product, or null",
            extents=("groups",), type="f32", alignment=4,
        ),
        Packed("group_of_row", "[m]: -1 is padding; or null", extents=("m",), type="s32", alignment=4),
        Packed(
            "group_ends", "[groups]: the row behind each group's last; or null",
            extents=("groups",), type="s32", alignment=4,
        ),
        Packed(
            "rows_valid", "[groups]: rows of each that count; or null",
            extents=("groups",), type="s32", alignment=4,
        ),
    ),
    numbers=(Number("alpha", "of the product", of_product=True),),
    codes=(
        Code("grouping", GROUPING),
        Code("row_alignment", "of group_ends: groups begin at multiples of it"),
    ),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
