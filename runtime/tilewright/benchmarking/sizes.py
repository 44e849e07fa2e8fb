"""Extents that kernels are compared on and tuned for: the lists of FlashInfer's pull request 2888, or one's
own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright import reading
from tilewright.errors import ArgumentError, UnreadableFileError
from tilewright.schema import shown


class Size(NamedTuple):
    """Extents of D[m,n] = A[m,k] B[k,n], in elements; n is 0 where there is an A[m,k] alone."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}" if self.n else f"{self.m}x{self.k}"


# Layers of large language models at few, some and many tokens (FlashInfer's pull request 2888).
LISTS: dict[str, tuple[Size, ...]] = {
    "small": tuple(Size(m, 4096, 7168) for m in (1, 4, 8, 16, 32, 64)),
    "medium": (
        Size(128, 4096, 7168),
        Size(128, 7168, 2048),
        Size(256, 4096, 7168),
        Size(256, 14336, 4096),
        Size(512, 14336, 4096),
    ),
    "large": (*(Size(m, 4096, 7168) for m in (1024, 2048, 4096)), Size(4096, 4096, 4096)),
}
LISTS["all"] = (*LISTS["small"], *LISTS["medium"], *LISTS["large"])

_EXTENT = "([1-9][0-9]{0,9})"
_SIZE = re.compile(f"{_EXTENT}(?:x{_EXTENT})?x{_EXTENT}")
MOST_EXTENT = 2**31 - 1  # what kernels take
MOST = 100_000  # sizes of a file: lists in it multiply out
_WANTED = (
    "a list of MxNxK, MxK or {m: ..., n: ..., k: ...} (n may be missing) with numbers or lists of them, or a "
    "mapping of m (a list) with k (a list), or with layers (a list of {n: ..., k: ...}) and squares (a list)"
)


def chosen(named: str | None, given: Sequence[str]) -> list[Size]:
    """The sizes that are asked for, each once: of a list's name or a YAML file, and those given as MxNxK or
    MxK.

    With neither, all lists. Raises ArgumentError for what is no size and no list.
    """
    found = [parse(text) for text in given]
    if named in LISTS:
        found = [*LISTS[named], *found]
    elif named is not None:
        found = [*read(Path(named)), *found]
    return list(dict.fromkeys(found)) or list(LISTS["all"])


def parse(text: str) -> Size:
    """`32x5120x25600`, or `32x25600`. Raises ArgumentError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ArgumentError(
            "--size", f"{shown(text)} is not MxNxK in positive whole numbers, as 32x5120x25600"
        )
    return _bounded(Size(int(match[1]), int(match[2] or 0), int(match[3])))


def read(path: Path) -> list[Size]:
    """The sizes of a YAML file: a list, each item `MxNxK`, `MxK` or a mapping of m, k and mostly n, in which
    a list stands for each of its numbers; or, as in benchmarks/shapes/, a mapping with layers, each of which
    is taken at every m, and squares, or with every k at every m; what else it holds is passed over.

    Raises ArgumentError where the file is missing or something else.
    """
    try:
        listed = reading.load_yaml(path)
    except FileNotFoundError:
        known = ", ".join(LISTS)
        raise ArgumentError("--sizes", f"{path} is none of {known}, and no file") from None
    except UnreadableFileError as error:
        raise ArgumentError("--sizes", error.message) from None
    if isinstance(listed, dict):
        listed = list(_of_layers(listed, path))
    if not isinstance(listed, list) or not listed:
        raise ArgumentError("--sizes", f"{path} is not {_WANTED}")
    found = list(
        itertools.islice(itertools.chain.from_iterable(_of_item(item, path) for item in listed), MOST + 1)
    )
    if len(found) > MOST:
        raise ArgumentError("--sizes", f"{path} makes more than {MOST:,} sizes")
    return found


def _of_layers(listed: dict[Any, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The items of a mapping with layers and squares, or with m and k."""
    if {"m", "k"} <= set(listed):
        yield {"m": listed["m"], "k": listed["k"]}
        return
    ms, layers, squares = (listed.get(name) or [] for name in ("m", "layers", "squares"))
    wanted = all(isinstance(one, list) for one in (ms, layers, squares)) and bool(ms) == bool(layers)
    if not wanted or not all(isinstance(one, dict) and {"n", "k"} <= set(one) for one in layers):
        raise ArgumentError("--sizes", f"{path} is not {_WANTED}")
    yield from ({"m": ms, "n": one["n"], "k": one["k"]} for one in layers)
    yield from ({"m": size, "n": size, "k": size} for size in squares)


def _of_item(item: Any, path: Path) -> Iterator[Size]:
    if isinstance(item, str):
        yield parse(item)
    elif isinstance(item, dict) and set(item) in ({"m", "n", "k"}, {"m", "k"}):
        numbers = [value if isinstance(value, list) else [value] for value in item.values()]
        for extents in itertools.product(*numbers):
            if not all(type(extent) is int and extent > 0 for extent in extents):
                raise ArgumentError(
                    "--sizes", f"{path}: {shown(item)} holds something else than positive numbers"
                )
            yield _bounded(Size(**{"n": 0, **dict(zip(item, extents, strict=True))}))
    else:
        raise ArgumentError("--sizes", f"{path}: {shown(item)} is no size; {_WANTED} is wanted")


def _bounded(size: Size) -> Size:
    if max(size) > MOST_EXTENT:
        raise ArgumentError("--size", f"{'x'.join(map(shown, size))}: an extent is {MOST_EXTENT} at most")
    return size
