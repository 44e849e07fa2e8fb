"""The arguments that a kernel of `transpose_fp8` takes."""

from __future__ import annotations

from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Packed, TacticStruct
from tilewright.families.transpose_fp8.problem import TYPES
from tilewright.families.transpose_fp8.vocabulary import WORDS

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `transpose_fp8` kernel, in the caller's terms: out[column, row] = x[row, column], for bytes.
With groups, the rows of each group become a matrix [columns, rows of the group]. The matrices follow one
another without gaps.
""",
    operands=(
        Matrix(
            "x", "[rows, columns], columns contiguous",
            rows="rows", columns="columns", batch="batch", single=True, type="type", alignment=1,
        ),
        Packed(
            "group_rows", "the number of rows of each group, or null", type="s32", alignment=4,
            shape=lambda problem: (problem.groups,),
        ),
        Matrix(
            "out", "[columns, rows], rows contiguous", pointer="void*",
            rows="columns", columns="rows", batch="batch", single=True, type="type", alignment=1,
            written=True,
        ),
    ),
    codes=(Code("groups", "of rows; 0: none", lambda problem: problem.groups),),
    tactic=TacticStruct(
        "tilewright_transpose_fp8_tactic",
        members=("sm_count",),
        values=lambda tactic, sm_count: {"sm_count": sm_count},
        text="Nothing is chosen: a thread block computes 128 rows and 128 columns.",
    ),
    types=Combinations(("type",), {(name,): () for name in TYPES}, result=""),
)  # fmt: skip
