"""The arguments that a kernel of `blockscaled_gemm` takes."""

from __future__ import annotations

from tilewright.declarations.declaration import Code, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.declarations.scaled import ScaleFactors
from tilewright.families.blockscaled_gemm.problem import ACTIVATIONS, SCALE_LAYOUT
from tilewright.families.blockscaled_gemm.vocabulary import WORDS

_A = Matrix(
    "a", "[m, k], k contiguous; FP4 lies two to a byte, the even index in the low nibble",
    rows="m", columns="k", batch="batch", single=True, type="a", raw=True,
)  # fmt: skip
_B = Matrix(
    "b", "[n, k], likewise",
    rows="k", columns="n", batch="batch", single=True, type="b", contiguous="rows", raw=True,
)  # fmt: skip
_OUT = Matrix(
    "out", "[m, n]", field="d",
    rows="m", columns="n", batch="batch", single=True, type="d", written=True, raw=True,
)  # fmt: skip

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `blockscaled_gemm` kernel, in the caller's terms:

  D[m,n] = alpha * sum over k of (A[m,k] * SFA[m,k/block]) (B[n,k] * SFB[n,k/block]) + beta * C[m,n]

Scale factors lie in the 128x4 layout: that of row r and column c of a matrix with k columns of data is at

  ((r/128) * KT + c/4) * 512 + (r%32) * 16 + ((r%128)/32) * 4 + c%4,   KT = ceil(ceil(k/block) / 4)

so rows are padded to 128 and columns to 4, with zeros.

A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    appended_text="""
Arguments of a `blockscaled_gemm` kernel that adds a bias and applies an activation:

  D[m,n] = activation(alpha * sum over k of (A[m,k] * SFA[m,k/block]) (B[n,k] * SFB[n,k/block])
                      + beta * C[m,n] + bias[n])
""",
    operands=(
        _A,
        _B,
        ScaleFactors("a_descale", "of A", field="scale_a", matrix=_A, layout=SCALE_LAYOUT),
        ScaleFactors("b_descale", "of B", field="scale_b", matrix=_B, layout=SCALE_LAYOUT),
        Matrix(
            "c", "[m, n]; null where beta is 0; may be d",
            rows="m", columns="n", batch="batch", single=True, type="type_of_c",
            twin="out", unread_if_zero="beta",
        ),
        _OUT,
        ScaleFactors(
            "out_descale", "the scale factors of a D that the epilogue quantises, else null",
            field="scale_d", matrix=_OUT, layout=SCALE_LAYOUT, written=True,
        ),
        Packed("alpha", "one device float, or null for 1", type="f32"),
        Packed(
            "out_global_scale", "one device float: the global scale of a NVFP4 D, else null",
            field="scale_d_global", type="f32",
        ),
        Packed("bias", "n elements of D's type, or null", extents=("n",), type="type_of_c", appended=True),
    ),
    numbers=(Number("beta", "of C"),),
    codes=(
        Code(
            "activation", "tilewright_activation (gemm/args.h)",
            lambda problem: ACTIVATIONS.index(problem.activation), appended=True,
        ),
    ),
    tactic=MATRIX_TACTIC,
    strides_text="Elements (not bytes, for FP4 too) between rows, and between matrices of a batch. The scale "
    "factors of a batch follow each other.",
)  # fmt: skip
