"""The arguments that a kernel of `mixed_gemm` takes."""

from __future__ import annotations

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.mixed_gemm.problem import ACTIVATIONS, OUTPUTS, Problem
from tilewright.families.mixed_gemm.vocabulary import WORDS

ACTIVATION = Codes("tilewright_mixed_activation", ACTIVATIONS, text="What is applied last.")


def _code_of(problem: Problem) -> str:
    """The activation in C's words. Kernels that compute silu_mul compute nothing else, and get its SiLU."""
    return "silu" if problem.gated else problem.activation


INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `mixed_gemm` kernel, in the caller's terms:

  D[m,n] = activation(alpha * sum over k of A[m,k] W[n,k] + bias[n])

W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        Matrix("a", "[m, k], k contiguous", rows="m", columns="k", type="a"),
        Packed(
            "weight", "packed elements: [n / 64, k / 128 * 4096 (8 bits: 8192)] bytes, rounded up",
            extents=("slices", "weight_bytes"), type="u8", alignment=16,
        ),
        Packed(
            "scale", "packed scales, and zero points",
            extents=("slices", "scale_bytes"), type="u8", alignment=16,
        ),
        Matrix(
            "out", "[m, n], n contiguous", field="d",
            rows="m", columns="d_columns", type="d", alignment=1, written=True,
        ),
        Packed("bias", "[n] of D's type, or null", extents=("n",), type="d"),
    ),
    numbers=(Number("alpha", "of the product", of_product=True),),
    codes=(Code("activation", ACTIVATION, of=_code_of),),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
