"""From the words of a command line to a family's problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.benchmarking.sizes import MOST_EXTENT, Size
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


def of_words(words: Sequence[str]) -> tuple[str, Any]:
    """A family and a problem of it, as one writes them: `gemm bf16 m=32 n=5120 k=25600 bias=true`.

    The family, the types of A and B (or none: its default), then NAME=VALUE in any order: m, n and k,
    out_dtype, layout, fast_accum, and any other field of the family's problems (batch, c, activation).

    Raises ArgumentError for what is none of these.
    """
    family, *others = words
    if family not in FAMILIES:
        raise ArgumentError("problem", f"begins with {family}; one of {', '.join(FAMILIES)} is wanted")
    types = [word for word in others if "=" not in word]
    if len(types) > 1:
        raise ArgumentError("problem", f"names types twice: {' and '.join(types)}")
    given: dict[str, str] = {}
    for name, _, value in (word.partition("=") for word in others if "=" in word):
        if name in given:
            raise ArgumentError(name, "is given twice")
        given[name] = value
    size = Size(*(_extent(name, given.pop(name, "")) for name in Size._fields))
    kind = Kind(
        "".join(types),
        out_dtype=given.pop("out_dtype", None),
        layout=given.pop("layout", None),
        fast_accum=_flag("fast_accum", given.pop("fast_accum", "false")),
    )
    (problem,) = make(family, kind, [size])
    return family, replace(problem, **{name: _value(problem, name, text) for name, text in given.items()})


def _extent(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_EXTENT:
        raise ArgumentError(name, f"is {text or 'not given'}; a number from 1 to {MOST_EXTENT} is wanted")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ArgumentError(name, f"is {text}; true or false is wanted")
    return text == "true"


def _value(problem: Any, name: str, text: str) -> Any:
    """Of a field that has no word of its own: by the type that it has."""
    known = [one.name for one in fields(problem) if isinstance(getattr(problem, one.name), bool | int | str)]
    if name not in known or name in ("a", "b", "d"):
        names = [*(one for one in known if one not in ("a", "b", "d")), "out_dtype"]
        raise ArgumentError(name, f"is no part of a problem; there are {', '.join(names)}")
    before = getattr(problem, name)
    if isinstance(before, bool):
        return _flag(name, text)
    return _extent(name, text) if isinstance(before, int) else text


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
