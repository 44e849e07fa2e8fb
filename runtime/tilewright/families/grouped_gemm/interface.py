"""The arguments that a kernel of `grouped_gemm` takes."""

from __future__ import annotations

from typing import Any

from tilewright.declarations import groups
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Packed
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.families.grouped_gemm.problem import GROUPINGS, OUTPUTS, OWN_ROWS
from tilewright.families.grouped_gemm.vocabulary import WORDS


def _of_a(problem: Any) -> str:
    """The batch of A: each group has rows of its own, or they share what there is."""
    return "groups" if problem.grouping in OWN_ROWS else ""


def _of_b(problem: Any) -> str:
    return "" if problem.grouping == "k_sizes" else "groups"


def _of_d(problem: Any) -> str:
    return "groups" if problem.grouping == "k_sizes" else _of_a(problem)


def _one_d(problem: Any) -> bool:
    return bool(problem.grouping != "k_sizes")


GROUPING = Codes(
    "tilewright_grouping", GROUPINGS,
    notes={
        "none": "a batch: matrices of m rows each, `groups` of them",
        **groups.NOTES,
        "k_sizes": "group_k: each group has a part of k, and a D",
    },
)  # fmt: skip
INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `grouped_gemm` kernel, in the caller's terms:

  D[m,n] = sum over k of A[m,k] SA[m,k/128] B[g,k,n] SB[g,k/128,n or n/128] + C[m,n]

Scale factors are F32; or of both operands UE8M0, for 32 or 128 of k, in words of four, the first block of k
in the lowest byte.

g is the group of row m, or of a part of k: then A and B hold [m, k] and [n, k] of each group's part, one
behind the other, and each group has a D. Operands of 16 bits have no scales. FP4 has factors for 32 of k; it
lies two to a byte, the even index in the low nibble. Who says which rows are of which group is `grouping`. A
kernel compiled with swapped operands swaps them itself; nothing here changes for it.
""",
    types=Combinations(("a", "b"), OUTPUTS),
    operands=(
        Matrix(
            "a", "[m, k], k (or m, as the kernel's layout says) contiguous; a batch of such where each group "
            "has its own", rows="m", columns="k", batch=_of_a, single=True, type="a", raw=True,
            contiguous=lambda problem: "columns" if problem.layout[0] == "t" else "rows", pairs="columns",
        ),
        Matrix(
            "b", "[groups, k, n], likewise k or n",
            rows="k", columns="n", batch=_of_b, single=True, type="b", raw=True,
            contiguous=lambda problem: "rows" if problem.layout[1] == "n" else "columns",
        ),
        Matrix(
            "scale_a", "[m, k/128], m contiguous; or words [m, k/32/4 or k/128/4], likewise; null of 16-bit "
            "operands",
            rows="m", columns="scale_lines", batch=_of_a, single=True, type="scale_type", contiguous="rows",
            pointer="const float*", wanted=lambda problem: problem.scaled,
            remedy="tilewright.blockwise_scales.m_major(scale_a) copies scales into this layout.",
        ),
        Matrix(
            "scale_b", "[groups, k/128, n/128], either contiguous, or [groups, k/128, n], n contiguous; or "
            "words [groups, k/32/4 or k/128/4, n], n contiguous",
            rows="scale_lines", columns="scale_columns", batch=_of_b, single=True, type="scale_type",
            alignment=4, contiguous=lambda problem: "rows" if problem.scales_k_major else "columns",
            pointer="const float*", wanted=lambda problem: problem.scaled,
        ),
        Matrix(
            "c", "[m, n], n contiguous; or null; may be d",
            rows="m", columns="n", batch=_of_d, single=_one_d, type="d", twin="out",
        ),
        Matrix(
            "out", "[m, n], n contiguous; columns of n and those that are skipped", field="d",
            rows="m", columns="d_columns", batch=_of_d, single=_one_d, type="d", written=True,
        ),
        *groups.OPERANDS,
        Packed(
            "group_k", "[groups]: k of each, multiples of a stage's (64 of 16 bits, 128 of 8); or null",
            extents=("groups",), type="s32", alignment=4, measured=True,
        ),
    ),
    codes=(
        Code("grouping", GROUPING),
        groups.ROW_ALIGNMENT,
        groups.ZERO_PADDING,
        Code("scales_k_major", "k is the contiguous dimension of 128x128 scales of B"),
        Code("head_left", "columns of a head of D, before those that are skipped; 0: none are"),
        Code("head_gap", "columns of D that are skipped in each head"),
        Code("head_right", "columns of a head behind them"),
    ),
    tactic=MATRIX_TACTIC,
)  # fmt: skip
