"""What the kernels of `gemm` take."""

from __future__ import annotations

from tilewright.interface.declaration import TMA_BYTES, Combinations, Interface, Matrix, Number, Packed
from tilewright.ops.common.tactics import MATRIX_TACTIC
from tilewright.ops.gemm.problem import OUTPUTS
from tilewright.ops.gemm.words import WORDS

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `gemm` kernel, in the caller's terms:

  D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])

A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    types=Combinations(("a", "b"), OUTPUTS),
    operands=(
        Matrix(
            "a", "[m, k], k or m contiguous as the kernel's layout says",
            rows="m", columns="k", batch="batch", single=True, type="a",
            contiguous=lambda problem: "columns" if problem.a_k_major else "rows",
        ),
        Matrix(
            "b", "[k, n], likewise",
            rows="k", columns="n", batch="batch", single=True, type="b",
            contiguous=lambda problem: "rows" if problem.b_k_major else "columns",
        ),
        Matrix(
            "c", "[m, n], n contiguous; null where beta is 0; may be d",
            rows="m", columns="n", batch="batch", single=True, type="d", twin="out", unread_if_zero="beta",
        ),
        Matrix(
            "out", "[m, n], n contiguous", field="d",
            rows="m", columns="n", batch="batch", single=True, type="d", written=True,
        ),
        Packed("bias", "n elements of D's type, or null", extents=("n",), type="d", alignment=TMA_BYTES),
        Packed("scale_a", "one device float, or null for 1", type="f32"),
        Packed("scale_b", "one device float, or null for 1", type="f32"),
    ),
    numbers=(Number("alpha", "of the product"), Number("beta", "of C")),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
