"""The arguments that a kernel of `reduced_gemm` takes."""

from __future__ import annotations

from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.reduced_gemm.problem import OUTPUTS
from tilewright.families.reduced_gemm.vocabulary import WORDS

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `reduced_gemm` kernel, in the caller's terms:

  D[m,n] = alpha * sum over the batch of A[m,k] B[k,n] + beta * C[m,n]
""",
    types=Combinations(("a", "b"), OUTPUTS),
    operands=(
        Matrix("a", "[m, k], k contiguous", rows="m", columns="k", batch="batch", single=True, type="a"),
        Matrix(
            "b", "[k, n], k contiguous",
            rows="k", columns="n", batch="batch", single=True, type="b", contiguous="rows",
        ),
        Matrix(
            "c", "[m, n], n contiguous; null where beta is 0; may be d", alignment=1,
            rows="m", columns="n", type="d", twin="out", unread_if_zero="beta",
        ),
        Matrix("out", "[m, n], n contiguous", field="d", alignment=1, rows="m", columns="n", type="d",
               written=True),
    ),
    numbers=(Number("alpha", "of the sum", of_product=True), Number("beta", "of C")),
    codes=(Code("f32", "whether D and C are of F32, not of the operands' type",
                lambda problem: int(problem.d == "f32")),),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
