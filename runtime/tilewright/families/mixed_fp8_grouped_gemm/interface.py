"""The arguments that a kernel of `mixed_fp8_grouped_gemm` takes."""

from __future__ import annotations

from dataclasses import replace

from tilewright.declarations import groups
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Packed
from tilewright.families.mixed_fp8_gemm.interface import LARGEST_SCALE
from tilewright.families.mixed_fp8_gemm.problem import OUTPUTS
from tilewright.families.mixed_fp8_grouped_gemm.vocabulary import WORDS
from tilewright.families.mixed_grouped_gemm.interface import GROUPING
from tilewright.families.mixed_grouped_gemm.interface import INTERFACE as GROUPED

INTERFACE = replace(
    GROUPED,
    words=WORDS,
    text="""
Arguments of a `mixed_fp8_grouped_gemm` kernel, in the caller's terms:

  D[m,n] = alpha * F[g] * S[m] * sum over k of A[m,k] W[g,n,k] + bias[g,n]

g is the group of row m. W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows
of W, and a group's rows follow those of the group before.
""",
    types=Combinations(("a",), OUTPUTS),
    operands=(
        *GROUPED.operands,
        Packed(
            "a_scale", "[m], or [groups, m], S: factors of A's rows; or null",
            shape=lambda problem: problem.scales_shape, type="f32", alignment=4,
        ),
    ),
    numbers=(*GROUPED.numbers, LARGEST_SCALE),
    codes=(
        Code("grouping", Codes("tilewright_mixed_fp8_grouping", GROUPING.words, notes=GROUPING.notes)),
        groups.ROW_ALIGNMENT,
    ),
)  # fmt: skip
