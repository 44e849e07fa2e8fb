"""The arguments that a kernel of `gemm` takes."""

from __future__ import annotations

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.gemm.problem import ACTIVATIONS, ADDENDS, GATED, OUTPUTS
from tilewright.families.gemm.vocabulary import WORDS

ADDEND = Codes(
    "tilewright_addend", ADDENDS, text="Types of C and the bias.",
    notes={"s32": "CUTLASS's kernels only, where all are D's type"},
)  # fmt: skip
ACTIVATION = Codes(
    "tilewright_activation", ACTIVATIONS,
    text="For kernels compiled with the activation `given`. Other kernels ignore it.",
)  # fmt: skip

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `gemm` kernel, in the caller's terms:

  D[m,n] = scale_result * activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])

A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    types=Combinations(("a", "b"), OUTPUTS),
    operands=(
        Matrix(
            "a", "[m, k], k or m contiguous as the kernel's layout says",
            rows="m", columns="k", batch="batch", single=True, type="a",
            contiguous=lambda problem: "columns" if problem.layout[0] == "t" else "rows",
        ),
        Matrix(
            "b", "[k, n], likewise",
            rows="k", columns="n", batch="batch", single=True, type="b",
            contiguous=lambda problem: "rows" if problem.layout[1] == "n" else "columns",
        ),
        Matrix(
            "c", "[m, n], n contiguous; null where beta is 0; may be d",
            rows="m", columns="d_columns", batch="batch", single=True, type=lambda problem: problem.type_of_c,
            alignment=1, twin="out", unread_if_zero="beta",
        ),
        Matrix(
            "out", "[m, n], n contiguous", field="d",
            rows="m", columns="d_columns", batch="batch", single=True, type="d", alignment=1, written=True,
        ),
        Packed("bias", "n elements, or null", extents=("n",), type=lambda problem: problem.type_of_bias),
        Packed("scale_a", "one device float, or null for 1", type="f32"),
        Packed("scale_b", "one device float, or null for 1", type="f32"),
        Packed("scale_result", "one device float, or null for 1; for a D of FP8", type="f32"),
        Packed(
            "amax",
            "for a D of FP8: one device float, raised to the largest magnitude before scale_result; or null",
            type="f32", written=True,
        ),
    ),
    numbers=(Number("alpha", "of the product", of_product=True), Number("beta", "of C")),
    codes=(
        Code("type_c", ADDEND, lambda problem: problem.type_of_c),
        Code("type_bias", ADDEND, lambda problem: problem.type_of_bias),
        # A gated kernel gets the activation of its gate.
        Code("activation", ACTIVATION, lambda problem: GATED.get(problem.activation, problem.activation)),
    ),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
