"""The arguments that a kernel of `mixed_grouped_gemm` takes."""

from __future__ import annotations

from tilewright.declarations import groups
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Number, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.mixed_grouped_gemm.problem import ACTIVATIONS, OUTPUTS
from tilewright.families.mixed_grouped_gemm.vocabulary import WORDS

GROUPING = Codes("tilewright_mixed_grouping", groups.GROUPINGS, notes=groups.NOTES)
ACTIVATION = Codes("tilewright_mixed_grouped_activation", ACTIVATIONS, text="What is applied last.")
INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `mixed_grouped_gemm` kernel, in the caller's terms:

  D[m,n] = alpha * F[g] * sum over k of A[m,k] W[g,n,k] + bias[g,n]

g is the group of row m. With the activation silu_mul, D [m,n/2] is silu(gate) * up, the halves of that sum.
W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W, and a group's rows
follow those of the group before.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        Matrix(
            "a", "[m, k], k contiguous; a batch of such where each group has its own",
            rows="m", columns="k", batch=groups.batch, type="a",
        ),
        Packed(
            "weight", "packed elements: [groups, n / 64, k / 128 * 4096 (8 bits: 8192)] bytes, rounded up",
            extents=("groups", "slices", "weight_bytes"), type="u8", alignment=16, measured=True,
        ),
        Packed(
            "scale", "packed scales, and zero points",
            extents=("groups", "slices", "scale_bytes"), type="u8", alignment=16,
        ),
        Matrix(
            "out", "[m, n], n contiguous; a batch as A's", field="d",
            rows="m", columns="d_columns", batch=groups.batch, type="d", written=True,
        ),
        Packed("bias", "[groups, n] of D's type, or null", extents=("groups", "n"), type="d"),
        Packed(
            "group_factors", "[groups]: a factor of each group's product, or null",
            extents=("groups",), type="f32", alignment=4,
        ),
        *groups.OPERANDS,
    ),
    numbers=(Number("alpha", "of the product", of_product=True),),
    codes=(
        Code("grouping", GROUPING),
        groups.ROW_ALIGNMENT,
        Code("activation", ACTIVATION),
    ),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
