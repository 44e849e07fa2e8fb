"""The words of `mixed_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Extent, Fields, Flag, Types, Words
from tilewright.families.mixed_gemm.problem import ACTIVATIONS, FORMATS, OUTPUTS, SILU_MUL, Problem

_ACTIVATIONS = (*ACTIVATIONS, SILU_MUL)


def _outputs(fields: Fields) -> tuple[str, ...]:
    """The types that D may have."""
    return OUTPUTS[(fields["a"],)]


N = Extent(
    "n", "Rows of W, columns of D.", usual=8192, multiple=lambda _: 8,
    because="packed weights have rows in units of 8",
)  # fmt: skip
K = Extent(
    "k", "Columns of A and W.", usual=8192, multiple=lambda _: 32,
    because="packed weights have columns in units of 32",
)  # fmt: skip
FORMAT = Choice("weight_format", f"Format of W: {', '.join(FORMATS)}.", tuple(FORMATS))

WORDS = Words(
    family="mixed_gemm",
    summary="D[m,n] = A[m,k] W[n,k] of packed weights.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D.", usual=64),
        N,
        K,
    ),
    types=Types(
        option="--dtype",
        default="bf16",
        fields={a: {"a": a, "d": outputs[0]} for (a,), outputs in OUTPUTS.items()},
        help="Type of A: bf16 or f16.",
    ),
    others=(
        Choice("out_dtype", "Type of D: that of A (the default) or f32.", _outputs, field="d"),
        FORMAT,
        Flag("bias", "Add a bias."),
        Choice("activation", f"{', '.join(_ACTIVATIONS)}.", _ACTIVATIONS),
    ),
)  # fmt: skip
