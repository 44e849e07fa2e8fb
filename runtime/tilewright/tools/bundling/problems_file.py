"""A list of products in YAML, written by hand (docs/bundles.md shows an example).

`problem` is written as for `tilewright explain --problem`, without the extent that varies. That extent is the
key beside it: a number, or the first and the last value, and after a slash the step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from tilewright.base import mismatch
from tilewright.base.yaml_files import load_yaml
from tilewright.declarations import catalog
from tilewright.errors import ArgumentError, UnreadableFileError
from tilewright.models.product import Listing, Product
from tilewright.tools.benchmarking.problems import of_words
from tilewright.tools.bundling import MOST

_VALUES = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?(?:/(\d{1,9}))?")
_KEYS = ("layer", "problem", "count")
_MOST_WORDS = 1000  # characters of a problem, which messages repeat
_MOST_KEYS = 3  # that a message names


def read(path: Path) -> Listing:
    """The products of a file. Raises UnreadableFileError, which names the item."""
    try:
        content = load_yaml(path)
    except FileNotFoundError:
        raise UnreadableFileError(path, "no such file") from None
    items = content.get("problems") if isinstance(content, dict) else None
    if not isinstance(items, list) or not items:
        raise UnreadableFileError(path, "expected a list `problems:` with an item for each product")
    listing = Listing(path.name)
    for number, item in enumerate(items, 1):
        try:
            listing.products.append(_product(item))
        except ArgumentError as error:
            raise UnreadableFileError(path, f"problems, item {number}: {error.message}") from None
    return listing


def _product(item: Any) -> Product:
    if not isinstance(item, dict) or not isinstance(item.get("problem"), str):
        raise ArgumentError("problem", "expected a mapping with `problem: FAMILY WORDS...`")
    problem, count = item["problem"], item.get("count", 1)
    if len(problem) > _MOST_WORDS:
        raise ArgumentError("problem", f"expected at most {_MOST_WORDS} characters, got {len(problem)}")
    words = problem.split()
    extent, values = _values(words[0] if words else "", item)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError("count", f"expected a whole number from 1, got {_shown(count)}")
    family, example = of_words([*words, f"{extent}={max(1, values[-1])}"])
    layer = str(item.get("layer", problem))
    if not layer.isprintable() or "|" in layer:  # a cell of reports' tables
        raise ArgumentError("layer", f"expected one line of text without |, got {_shown(layer)}")
    return Product(layer, family, family, example, values, extent, count)


def _values(family: str, item: Mapping[str, Any]) -> tuple[str, range]:
    """The extent that varies, and its values."""
    keys = [key for key in item if key not in _KEYS]
    extents = (
        [extent.name for extent in catalog.words_of(family).extents] if family in catalog.names() else []
    )
    if len(keys) != 1 or (extents and keys[0] not in extents):
        expected = f"expected one of {', '.join(extents)}" if extents else "expected one"
        names = ", ".join(map(_shown, keys[:_MOST_KEYS])) or "none"
        more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
        raise ArgumentError(
            "extent", f"{expected}, which varies, beside {', '.join(_KEYS)}; got {names}{more}"
        )
    match = _VALUES.fullmatch(str(item[keys[0]]))
    if match is None:
        raise ArgumentError(keys[0], f"expected FIRST..LAST or FIRST..LAST/STEP, got {_shown(item[keys[0]])}")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if not first <= last <= MOST or not step:
        raise ArgumentError(
            keys[0], f"expected FIRST up to LAST, at most {MOST}, got {_shown(item[keys[0]])}"
        )
    return keys[0], range(first, last + 1, step)


def _shown(value: Any) -> str:
    """A value of YAML in a message."""
    return mismatch.shown(str(value) if isinstance(value, date) else value)
