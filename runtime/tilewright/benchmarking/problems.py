"""From the words of a command line to a family's problems."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

from tilewright.benchmarking.sizes import MOST_EXTENT, Size
from tilewright.errors import ArgumentError


@dataclass(frozen=True)
class Kind:
    """What is computed, whatever the extents. None or "" is the family's default."""

    formats: str = ""  # of A and B; of what is quantised
    out_dtype: str | None = None  # of D
    layout: str | None = None  # of A and B; of the scales
    x: str | None = None  # the type of what is quantised
    fast_accum: bool = False


def make(family: str, kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    """The family's problems, one for each size. Raises ArgumentError for a word that the family has not."""
    return _MAKERS[family](kind, sizes)


def of_words(words: Sequence[str]) -> tuple[str, Any]:
    """A family and a problem of it, as one writes them: `gemm bf16 m=32 n=5120 k=25600 bias=true`.

    The family, the types of A and B or the format of what is quantised (or none: its default), then
    NAME=VALUE in any order: m, n (of products) and k, out_dtype, layout, x, fast_accum, and any other field
    of the family's problems (batch, c, activation, fusion, direction).

    Raises ArgumentError for what is none of these.
    """
    family, *others = words
    if family not in FAMILIES:
        near = _near(family, FAMILIES)
        raise ArgumentError("problem", f"begins with {family}{near}; one of {', '.join(FAMILIES)} is wanted")
    types = [word for word in others if "=" not in word]
    if len(types) > 1:
        raise ArgumentError("problem", f"names types twice: {' and '.join(types)}")
    given: dict[str, str] = {}
    known = _names(family)
    for name, _, value in (word.partition("=") for word in others if "=" in word):
        if name not in known:
            there_are = f"there are {', '.join(known)}"
            raise ArgumentError(name, f"is no part of a problem{_near(name, known)}; {there_are}")
        if name in given:
            raise ArgumentError(name, "is given twice")
        given[name] = value
    extents = EXTENTS[family]
    size = Size(**{"n": 0, **{name: _extent(name, given.pop(name, "")) for name in extents}})
    kind = Kind(
        "".join(types),
        out_dtype=given.pop("out_dtype", None),
        layout=given.pop("layout", None),
        x=given.pop("x", None),
        fast_accum=_flag("fast_accum", given.pop("fast_accum", "false")),
    )
    try:
        (problem,) = make(family, kind, [size])
    except ArgumentError as error:
        raise _in_words(error, family, size) from None
    return family, replace(
        problem, **{name: _value(family, problem, name, text) for name, text in given.items()}
    )


def _problem(family: str) -> Any:
    return import_module(f"tilewright.ops.{family}.problem")


def _names(family: str) -> list[str]:
    """What NAME may be: the problem's fields but for those that types say or that say how operands lie."""
    names = [one.name for one in fields(_problem(family).Problem)]
    said = ("a", "b", "d", "format", "alignment", "layout")
    return [*(name for name in names if name not in said), "layout", *(["out_dtype"] if "d" in names else [])]


def _near(wrong: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wrong.lower(), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _in_words(error: ArgumentError, family: str, size: Size) -> ArgumentError:
    """What is wrong with an option, said of the word that stands for it in a problem."""
    reason = error.message.removeprefix(f"{error.argument}: ")
    if error.argument == "--size":  # of the extents that words give, k alone can be wrong
        return ArgumentError("k", f"{size.k}: {reason.removeprefix(f'{size}: ')}")
    if error.argument in ("--dtype", "--formats"):
        return ArgumentError(family, reason)
    return ArgumentError(error.argument.removeprefix("--").replace("-", "_"), reason)


def _extent(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,12}", text) or not 0 < int(text) <= MOST_EXTENT:
        raise ArgumentError(
            name, f"is {text[:40] or 'not given'}; a number from 1 to {MOST_EXTENT} is wanted"
        )
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ArgumentError(name, f"is {text}; true or false is wanted")
    return text == "true"


def _value(family: str, problem: Any, name: str, text: str) -> Any:
    """Of a field that has no word of its own: by the type that it has."""
    before = getattr(problem, name)
    if isinstance(before, bool):
        return _flag(name, text)
    if isinstance(before, int):
        return _extent(name, text)
    values = _problem(family).values(problem)[name]
    if text not in values:
        raise ArgumentError(name, f"is {text}{_near(text, values)}; one of {', '.join(values)} is wanted")
    return text


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

    _check_product(kind, sizes)
    a, b, d = gemm_types(kind.formats or "bf16", kind.out_dtype)
    if kind.fast_accum and a not in FP8:
        raise ArgumentError("--fast-accum", f"sums of {a} know no fast accumulation; FP8's do")
    layout = kind.layout or "tn"
    if layout not in ("tn", "tt", "nn", "nt"):
        raise ArgumentError("--layout", f"{layout}: one of tn, tt, nn, nt is wanted")
    return [Problem(*size, a=a, b=b, d=d, layout=layout, fast_accum=kind.fast_accum) for size in sizes]


def _blockscaled_gemm(kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    from tilewright.ops.blockscaled_gemm.problem import BITS, Problem  # noqa: PLC0415

    _check_product(kind, sizes)
    if kind.layout not in (None, "tn"):
        raise ArgumentError("--layout", f"{kind.layout}: block-scaled operands have k contiguous: tn")
    if kind.fast_accum:
        raise ArgumentError("--fast-accum", "block-scaled sums know no fast accumulation")
    a, b, d = blockscaled_types(kind.formats or "nvfp4", kind.out_dtype or "bf16")
    for size in sizes:
        if size.k * min(BITS[a], BITS[b]) % 8:
            raise ArgumentError("--size", f"{size}: two elements of FP4 share a byte, so k is even")
    return [Problem(*size, a=a, b=b, d=d) for size in sizes]


def _check_product(kind: Kind, sizes: Sequence[Size]) -> None:
    """Raises ArgumentError for what only quantising knows."""
    if kind.x is not None:
        raise ArgumentError("--x", f"{kind.x}: products have no x; --formats names the types of A and B")
    for size in sizes:
        if not size.n:
            raise ArgumentError("--size", f"{size}: a product has three extents, MxNxK")


def _quantize(kind: Kind, sizes: Sequence[Size]) -> list[Any]:
    """Of sizes with an n: A[m,k] of that product is quantised."""
    from tilewright.ops.quantize.problem import BLOCK, LAYOUTS, X_BITS, Problem  # noqa: PLC0415

    name, x = kind.formats or "nvfp4", kind.x or "bf16"
    if name not in BLOCK:
        raise ArgumentError("--formats", f"{name}: one of {', '.join(BLOCK)} is wanted")
    if x not in X_BITS or (x == "e4m3" and name != "nvfp4"):
        raise ArgumentError("--x", f"{x}: one of bf16, f16, f32, or e4m3 for nvfp4, is wanted")
    layout = kind.layout or LAYOUTS[name][0]
    if layout not in LAYOUTS[name]:
        raise ArgumentError("--layout", f"{layout}: scales of {name} are {' or '.join(LAYOUTS[name])}")
    for option, given in (("--out-dtype", kind.out_dtype), ("--fast-accum", kind.fast_accum)):
        if given:
            raise ArgumentError(option, "is an option of products")
    for size in sizes:
        if size.k % 16:
            raise ArgumentError("--size", f"{size}: k is a multiple of 16")
    scale = "tensor" if name == "nvfp4" else "none"
    made = (Problem(size.m, size.k, format=name, x=x, layout=layout, global_scale=scale) for size in sizes)
    return list(dict.fromkeys(made))


_MAKERS: dict[str, Callable[[Kind, Sequence[Size]], list[Any]]] = {
    "gemm": _gemm,
    "blockscaled_gemm": _blockscaled_gemm,
    "quantize": _quantize,
}
FAMILIES = tuple(_MAKERS)
EXTENTS = {"gemm": ("m", "n", "k"), "blockscaled_gemm": ("m", "n", "k"), "quantize": ("m", "k")}
