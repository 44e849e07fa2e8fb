"""The arguments that a kernel of `hc_prenorm` takes."""

from __future__ import annotations

from tilewright.declarations.declaration import Code, Interface, Matrix, Number, Packed, TacticStruct
from tilewright.families.hc_prenorm.vocabulary import WORDS

TACTIC = TacticStruct(
    name="tilewright_hc_prenorm_tactic",
    text="Multiprocessors to use; at most the device's.",
    members=("sm_count",),
)

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of an `hc_prenorm` kernel, in the caller's terms:

  D[s,m,n] = sum over the k of split s of A[m,k] B[n,k]; squares[s,m] = the same sum of A[m,k]^2

Splits of k have whole blocks of 64. If the blocks do not divide evenly, the first splits have one more.
""",
    operands=(
        Matrix("a", "[m, k], k contiguous", rows="m", columns="k", type="bf16"),
        Matrix("b", "[n, k], k contiguous; rounded to TF32", rows="n", columns="k", type="f32"),
        Matrix(
            "out", "[splits, m, n], n contiguous", field="d",
            rows="m", columns="n", batch="splits", single=True, type="f32", written=True,
        ),
        Packed("squares", "[splits, m]", extents=("m",), of="out", type="f32", alignment=4, written=True),
    ),
    numbers=(Number("eps", "added to the mean square", field="epsilon"),),
    codes=(
        Code(
            "normalizes", "whether D, of one split, is divided by the root of its row's mean square",
            lambda problem: int(problem.normalize),
        ),
    ),
    tactic=TACTIC,
)  # fmt: skip
