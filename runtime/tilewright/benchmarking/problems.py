"""From the words of a command line to a family's problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.benchmarking.sizes import Size
from tilewright.errors import ArgumentError


@dataclass(frozen=True)
class Kind:
    """What is computed, whatever the extents. None or "" is the family's default."""

    formats: str = ""  # of A and B
    out_dtype: str | None = None  # of D
    layout: str | None = None
    fast_accum: bool = False


def make(family: str, kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    """The family's problems, one for each size. Raises ArgumentError for a word that the family has not."""
    return _MAKERS[family](kind, sizes)


def gemm_types(dtype: str, out_dtype: str | None) -> tuple[str, str, str]:
    """The types of A, B and D that `--dtype` and `--out-dtype` mean."""
    from tilewright.ops.gemm.problem import OUTPUTS  # noqa: PLC0415 (one family's)

    a = {"fp8": "e4m3", "int8": "s8", "fp16": "f16", "f32": "tf32"}.get(dtype, dtype)
    b = "e4m3" if a == "e5m2" else a
    if (a, b) not in OUTPUTS:
        raise ArgumentError("--dtype", f"{dtype}: one of bf16, f16, fp8, e5m2, tf32, s8 is wanted")
    d = out_dtype or OUTPUTS[a, b][0]
    if d not in OUTPUTS[a, b]:
        raise ArgumentError("--out-dtype", f"{d}: {a} x {b} gives {' or '.join(OUTPUTS[a, b])}")
    return a, b, d


def blockscaled_types(formats: str, out_dtype: str) -> tuple[str, str, str]:
    """The formats of A and B and the type of D that `--formats` and `--out-dtype` mean: `nvfp4` of both, or
    `mxfp8xmxfp4`, in whose names there is an x, too."""
    from tilewright.ops.blockscaled_gemm.problem import BLOCK, OUTPUTS  # noqa: PLC0415

    pairs = {f"{a}x{b}": (a, b) for a in BLOCK for b in BLOCK} | {a: (a, a) for a in BLOCK}
    if formats not in pairs:
        names = ", ".join(BLOCK)
        raise ArgumentError("--formats", f"{formats}: one or two of {names}, as mxfp8xmxfp4, are wanted")
    a, b = pairs[formats]
    if BLOCK[a] != BLOCK[b]:
        raise ArgumentError("--formats", f"{formats}: {a} has blocks of {BLOCK[a]} and {b} of {BLOCK[b]}")
    if out_dtype not in OUTPUTS:
        raise ArgumentError("--out-dtype", f"{out_dtype}: one of {', '.join(OUTPUTS)} is wanted")
    return a, b, out_dtype


def _gemm(kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    from tilewright.ops.gemm.problem import FP8, Problem  # noqa: PLC0415

    a, b, d = gemm_types(kind.formats or "bf16", kind.out_dtype)
    if kind.fast_accum and a not in FP8:
        raise ArgumentError("--fast-accum", f"sums of {a} know no fast accumulation; FP8's do")
    layout = kind.layout or "tn"
    return [Problem(*size, a=a, b=b, d=d, layout=layout, fast_accum=kind.fast_accum) for size in sizes]


def _blockscaled_gemm(kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    from tilewright.ops.blockscaled_gemm.problem import BITS, Problem  # noqa: PLC0415

    if kind.layout not in (None, "tn"):
        raise ArgumentError("--layout", f"{kind.layout}: block-scaled operands have k contiguous: tn")
    if kind.fast_accum:
        raise ArgumentError("--fast-accum", "block-scaled sums know no fast accumulation")
    a, b, d = blockscaled_types(kind.formats or "nvfp4", kind.out_dtype or "bf16")
    for size in sizes:
        if size.k * min(BITS[a], BITS[b]) % 8:
            raise ArgumentError("--size", f"{size}: two elements of FP4 share a byte, so k is even")
    return [Problem(*size, a=a, b=b, d=d) for size in sizes]


_MAKERS: dict[str, Callable[[Kind, Sequence[Size]], list[Any]]] = {
    "gemm": _gemm,
    "blockscaled_gemm": _blockscaled_gemm,
}
FAMILIES = tuple(_MAKERS)
