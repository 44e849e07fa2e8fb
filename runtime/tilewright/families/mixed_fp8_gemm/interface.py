"""The arguments that a kernel of `mixed_fp8_gemm` takes."""

from __future__ import annotations

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.mixed_fp8_gemm.problem import OUTPUTS
from tilewright.families.mixed_fp8_gemm.vocabulary import WORDS
from tilewright.families.mixed_gemm.problem import ACTIVATIONS

ACTIVATION = Codes("tilewright_mixed_fp8_activation", ACTIVATIONS, text="What is applied last.")

LARGEST_SCALE = Number(
    "largest_scale",
    "of MXFP4, a power of two: with fast_accum, scales are relative to it",
    default=1.0,
)

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `mixed_fp8_gemm` kernel, in the caller's terms:

  D[m,n] = activation(alpha * F[m] * sum over k of A[m,k] W[n,k] + bias[n])

W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        Matrix("a", "[m, k], k contiguous", rows="m", columns="k", type="a"),
        Packed(
            "weight", "packed elements: [n / 64, k / 128 * 4096] bytes, n and k rounded up",
            extents=("slices", "weight_bytes"), type="u8", alignment=16,
        ),
        Packed(
            "scale", "packed scales, and zero points",
            extents=("slices", "scale_bytes"), type="u8", alignment=16,
        ),
        Matrix(
            "out", "[m, n], n contiguous", field="d",
            rows="m", columns="n", type="d", alignment=1, written=True,
        ),
        Packed("a_scale", "[m], F: factors of A's rows; or null", extents=("m",), type="f32", alignment=4),
        Packed("bias", "[n] of D's type, or null", extents=("n",), type="d"),
    ),
    numbers=(
        Number("alpha", "of the product", of_product=True),
        LARGEST_SCALE,
    ),
    codes=(Code("activation", ACTIVATION),),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
