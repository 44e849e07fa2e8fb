"""What the kernels of `gemm` take."""

from __future__ import annotations

from tilewright.interface.declaration import TMA_BYTES, Interface, Matrix, Number, Packed
from tilewright.ops.common.tactics import MATRIX_TACTIC

INTERFACE = Interface(
    family="gemm",
    text="""
Arguments of a `gemm` kernel, in the caller's terms:

  D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])

A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    extents=("m", "n", "k", "batch"),
    operands=(
        Matrix(
            "a", "[m, k], k or m contiguous as the kernel's layout says",
            rows="m", columns="k", type="a", alignment=TMA_BYTES,
            contiguous=lambda problem: "columns" if problem.a_k_major else "rows",
        ),
        Matrix(
            "b", "[k, n], likewise",
            rows="k", columns="n", type="b", alignment=TMA_BYTES,
            contiguous=lambda problem: "rows" if problem.b_k_major else "columns",
        ),
        Matrix(
            "c", "[m, n], n contiguous; null where beta is 0; may be d",
            rows="m", columns="n", type="d", alignment=TMA_BYTES, twin="out",
            unread_if_zero="beta",
        ),
        Matrix(
            "out", "[m, n], n contiguous", field="d", pointer="void*",
            rows="m", columns="n", type="d", alignment=TMA_BYTES, written=True,
        ),
        Packed("bias", "n elements of D's type, or null", alignment=TMA_BYTES),
        Packed("scale_a", "one device float, or null for 1", pointer="const float*"),
        Packed("scale_b", "one device float, or null for 1", pointer="const float*"),
    ),
    numbers=(Number("alpha", "of the product"), Number("beta", "of C")),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
