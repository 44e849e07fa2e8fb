"""The arguments that a kernel of `mixed_fp8_gemm` takes."""

from __future__ import annotations

from dataclasses import replace

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Number, Packed
from tilewright.families.mixed_fp8_gemm.problem import OUTPUTS
from tilewright.families.mixed_fp8_gemm.vocabulary import WORDS
from tilewright.families.mixed_gemm.interface import INTERFACE as DENSE
from tilewright.families.mixed_gemm.problem import ACTIVATIONS

ACTIVATION = Codes("tilewright_mixed_fp8_activation", ACTIVATIONS, text="What is applied last.")

LARGEST_SCALE = Number(
    "largest_scale",
    "of MXFP4, a power of two: with fast_accum, scales are relative to it",
    default=1.0,
)

A, WEIGHT, SCALE, OUT, BIAS = DENSE.operands

INTERFACE = replace(
    DENSE,
    words=WORDS,
    text="""
Arguments of a `mixed_fp8_gemm` kernel, in the caller's terms:

  D[m,n] = activation(alpha * F[m] * sum over k of A[m,k] W[n,k] + bias[n])

W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        A,
        replace(WEIGHT, what="packed elements: [n / 64, k / 128 * 4096] bytes, n and k rounded up"),
        SCALE,
        OUT,
        Packed("a_scale", "[m], F: factors of A's rows; or null", extents=("m",), type="f32", alignment=4),
        BIAS,
    ),
    numbers=(*DENSE.numbers, LARGEST_SCALE),
    codes=(Code("activation", ACTIVATION),),
)  # fmt: skip
