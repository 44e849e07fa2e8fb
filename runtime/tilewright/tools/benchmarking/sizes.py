"""Extents for which kernels are compared and tuned: the lists of FlashInfer's pull request 2888, or a
user's."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.base.mismatch import shown
from tilewright.base.yaml_files import load_yaml
from tilewright.declarations.vocabulary import MOST_EXTENT, Words
from tilewright.errors import ArgumentError, UnreadableFileError


class Size(NamedTuple):
    """Extents of a problem, by name; without names they are a family's own, in its order."""

    numbers: tuple[int, ...]
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.names:
            return ", ".join(
                f"{name}={number}" for name, number in zip(self.names, self.numbers, strict=True)
            )
        return "x".join(map(str, self.numbers))

    def of(self, words: Words[Any]) -> dict[str, int]:
        """The family's extents of the size. Raises ArgumentError if extents are missing or unknown."""
        spellings = (words.size, *words.also_sizes)
        names = self.names or next(
            (spelling for spelling in spellings if len(spelling) == len(self.numbers)), ()
        )
        legal = {name for spelling in spellings for name in spelling} | {
            spelling.name for spelling in words.extents
        }
        if not set(words.size) <= set(names) <= legal:
            expected = f"expected {words.size_text} for {words.family}"
            raise ArgumentError("--size", f"{self}: {expected}")
        own = {extent.name for extent in words.extents}
        return {name: number for name, number in zip(names, self.numbers, strict=True) if name in own}


def _product(m: int, n: int, k: int) -> Size:
    return Size((m, n, k), ("m", "n", "k"))


# Layers of large language models at few, some and many tokens (FlashInfer's pull request 2888).
LISTS: dict[str, tuple[Size, ...]] = {
    "small": tuple(_product(m, 4096, 7168) for m in (1, 4, 8, 16, 32, 64)),
    "medium": (
        _product(128, 4096, 7168),
        _product(128, 7168, 2048),
        _product(256, 4096, 7168),
        _product(256, 14336, 4096),
        _product(512, 14336, 4096),
    ),
    "large": (*(_product(m, 4096, 7168) for m in (1024, 2048, 4096)), _product(4096, 4096, 4096)),
}
LISTS["all"] = (*LISTS["small"], *LISTS["medium"], *LISTS["large"])

_EXTENT = "[1-9][0-9]{0,9}"
_SIZE = re.compile(f"{_EXTENT}(?:x{_EXTENT}){{1,7}}")
MOST = 100_000  # sizes of a file, whose lists multiply
_EXPECTED = (
    "a list of MxNxK, MxK or {m: ..., n: ..., k: ...} (of the family's extents) with numbers or lists of "
    "them, or a mapping of extents to lists, or one with m (a list), layers (a list of {n: ..., k: ...}) and "
    "squares (a list)"
)


def chosen(named: str | None, texts: Sequence[str]) -> list[Size]:
    """The sizes that are asked for, each once: of a list's name or a YAML file, and `texts`: MxNxK or MxK.

    With neither, all lists. Raises ArgumentError for a text that is neither a size nor a list.
    """
    sizes = [parse(text) for text in texts]
    if named in LISTS:
        sizes = [*LISTS[named], *sizes]
    elif named is not None:
        sizes = [*read(Path(named)), *sizes]
    return list(dict.fromkeys(sizes)) or list(LISTS["all"])


def parse(text: str) -> Size:
    """`32x5120x25600`, or `32x25600`. Raises ArgumentError."""
    if _SIZE.fullmatch(text) is None:
        raise ArgumentError(
            "--size", f"{text[:40]!r}: expected MxNxK in positive whole numbers, such as 32x5120x25600"
        )
    return _bounded(Size(tuple(map(int, text.split("x")))))


def read(path: Path) -> list[Size]:
    """The sizes of a YAML file: a list, each item `MxNxK`, `MxK` or a mapping of extents, in which a list
    stands for each of its numbers; or a mapping of extents to lists; or, as in benchmarks/shapes, one
    with layers, each of which is taken at every m, and squares. What else a mapping holds is passed over.

    Raises ArgumentError where the file is missing or something else.
    """
    try:
        listed = load_yaml(path)
    except FileNotFoundError:
        lists = ", ".join(LISTS)
        raise ArgumentError("--sizes", f"{path}: expected one of {lists}, or a file") from None
    except UnreadableFileError as error:
        raise ArgumentError("--sizes", error.message) from None
    if isinstance(listed, dict):
        listed = list(_of_mapping(listed, path))
    if not isinstance(listed, list) or not listed:
        raise ArgumentError("--sizes", f"{path} is not {_EXPECTED}")
    sizes = list(
        itertools.islice(itertools.chain.from_iterable(_of_item(item, path) for item in listed), MOST + 1)
    )
    if len(sizes) > MOST:
        raise ArgumentError("--sizes", f"{path} makes more than {MOST:,} sizes")
    return sizes


def _of_mapping(listed: dict[Any, Any], path: Path) -> Iterator[dict[Any, Any]]:
    """The items of a mapping of extents to lists, or of one with layers and squares."""
    if not {"layers", "squares"} & set(listed):
        lists = {name: value for name, value in listed.items() if isinstance(value, list)}
        if lists:
            yield lists
        return
    ms, layers, squares = (listed.get(name) or [] for name in ("m", "layers", "squares"))
    legal = all(isinstance(part, list) for part in (ms, layers, squares)) and bool(ms) == bool(layers)
    if not legal or not all(isinstance(layer, dict) and {"n", "k"} <= set(layer) for layer in layers):
        raise ArgumentError("--sizes", f"{path} is not {_EXPECTED}")
    yield from ({"m": ms, "n": layer["n"], "k": layer["k"]} for layer in layers)
    yield from ({"m": size, "n": size, "k": size} for size in squares)


def _of_item(item: Any, path: Path) -> Iterator[Size]:
    if isinstance(item, str):
        yield parse(item)
    elif isinstance(item, dict) and item and all(map(_is_name, item)):
        numbers = [value if isinstance(value, list) else [value] for value in item.values()]
        for extents in itertools.product(*numbers):
            if not all(type(extent) is int and extent > 0 for extent in extents):
                raise ArgumentError(
                    "--sizes", f"{path}: {shown(item)} holds something else than positive numbers"
                )
            yield _bounded(Size(extents, tuple(item)))
    else:
        raise ArgumentError("--sizes", f"{path}: {shown(item)} is no size; expected {_EXPECTED}")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch("[a-z_]{1,20}", name) is not None


def _bounded(size: Size) -> Size:
    if max(size.numbers) > MOST_EXTENT:
        raise ArgumentError(
            "--size", f"{'x'.join(map(shown, size.numbers))}: an extent is {MOST_EXTENT} at most"
        )
    return size
