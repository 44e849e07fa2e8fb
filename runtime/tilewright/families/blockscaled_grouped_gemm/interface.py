"""The arguments that a kernel of `blockscaled_grouped_gemm` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.declarations import groups
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.declarations.scaled import ScaleFactors, scale_shape
from tilewright.families.blockscaled_gemm.problem import SCALE_LAYOUT
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS
from tilewright.families.blockscaled_grouped_gemm.vocabulary import WORDS


@dataclass(frozen=True, kw_only=True)
class RowFactors(ScaleFactors):
    """The scale factors of A, of which each group's may begin at a row of their own."""

    def shape_of(self, problem: Any) -> tuple[int, int]:
        return scale_shape(problem.scale_rows, problem.k, problem.a, self.layout)


_A = Matrix(
    "a", "[m, k], k contiguous; a batch of such where each group has its own. FP4 lies two to a byte, the "
    "even index in the low nibble",
    rows="m", columns="k", batch=groups.batch, type="a", raw=True,
)  # fmt: skip
_B = Matrix(
    "b", "[groups, n, k], likewise",
    rows="k", columns="n", batch="groups", type="b", contiguous="rows", raw=True,
)  # fmt: skip
GROUPING = Codes("tilewright_blockscaled_grouping", groups.GROUPINGS, notes=groups.NOTES)
INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `blockscaled_grouped_gemm` kernel, in the caller's terms:

  D[m,n] = alpha[g] * sum over k of (A[m,k] * SFA[m,k/block]) (B[g,n,k] * SFB[g,n,k/block])

g is the group of row m. Scale factors lie in the 128x4 layout (blockscaled_gemm/args.h): those of A as one
matrix, or one for each group where each has rows of its own; those of B one matrix for each group. The rows
of a group begin with an atom of 128 rows of scale factors: where the group begins, which is then a multiple
of 128, or at its entry of `scale_begins`.

A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    types=Combinations(("a", "b"), OUTPUTS),
    operands=(
        _A,
        _B,
        RowFactors("a_descale", "of A", field="scale_a", matrix=_A, layout=SCALE_LAYOUT),
        ScaleFactors("b_descale", "of B", field="scale_b", matrix=_B, layout=SCALE_LAYOUT),
        Matrix(
            "out", "[m, n], n contiguous; a batch as A's", field="d",
            rows="m", columns="n", batch=groups.batch, type="d", written=True,
        ),
        Packed(
            "alpha", "[groups]: a factor of each group's product; or null for 1",
            extents=("groups",), type="f32", alignment=4,
        ),
        *groups.OPERANDS,
        Packed(
            "scale_begins", "[groups]: the row of scale_a with which each group's begin, a multiple of 128; "
            "or null: the group's first row",
            extents=("groups",), type="s32", alignment=4,
        ),
    ),
    codes=(
        Code("grouping", GROUPING),
        groups.ROW_ALIGNMENT,
        groups.ZERO_PADDING,
    ),
    tactic=MATRIX_TACTIC,
    strides_text="Elements (not bytes, for FP4 too) between rows, and between matrices of a batch.",
)  # fmt: skip
