"""The words of `blockscaled_gemm` problems."""

from __future__ import annotations

from dataclasses import replace

from tilewright.declarations.vocabulary import MATRIX_EXTENTS, Choice, Fields, Flag, Types, Words
from tilewright.families.blockscaled_gemm.problem import (
    ACTIVATIONS,
    BLOCK,
    OUTPUTS,
    QUANTIZED_OUTPUTS,
    Problem,
)
from tilewright.formats.types import bits


def _pair(a: str, b: str) -> Fields | str:
    if BLOCK[a] == BLOCK[b]:
        return {"a": a, "b": b}
    return f"{a} has blocks of {BLOCK[a]} and {b} of {BLOCK[b]}"


def _plain(fields: Fields) -> bool:
    return fields["d"] not in QUANTIZED_OUTPUTS


def _activations(fields: Fields) -> tuple[str, ...]:
    return ACTIVATIONS if _plain(fields) else ("none",)


def _k_multiple(fields: Fields) -> int:
    """Elements in a byte."""
    return 8 // min(bits(fields["a"]), bits(fields["b"]))


M, N, K, BATCH = MATRIX_EXTENTS

WORDS = Words(
    family="blockscaled_gemm",
    summary="D[m,n] = alpha (A SFA)[m,k] (B SFB)[k,n].",
    problem=Problem,
    extents=(M, N, replace(K, multiple=_k_multiple, because="two elements of FP4 share a byte"), BATCH),
    types=Types(
        option="--formats",
        default="nvfp4",
        fields={f"{a}x{b}": _pair(a, b) for a in BLOCK for b in BLOCK} | {a: _pair(a, a) for a in BLOCK},
        expected=f"one or two of {', '.join(BLOCK)}, as mxfp8xmxfp4",
        help=f"Formats of A and B: {', '.join(BLOCK)}; default nvfp4; or two, as mxfp8xmxfp4.",
    ),
    others=(
        Choice("out_dtype", f"Type of D: {', '.join(OUTPUTS)}; default bf16.", OUTPUTS, field="d"),
        Choice("layout", "Layouts of A and B: tn (both have k contiguous).", ("tn",), field=None),
        Flag("c", "Add C."),
        Flag("bias", "Add a bias of D's type.", allowed=_plain, because="a quantised D has none"),
        Choice("activation", f"{', '.join(ACTIVATIONS)}.", _activations),
    ),
)
