"""Proves a bundle: asks the library's own selection about every value, one by one, and compares."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

from tilewright.bundle.manifest import Entry, Manifest
from tilewright.declarations import catalog
from tilewright.models.product import Product
from tilewright.tools.bundling import closure
from tilewright.tools.bundling.closure import Chosen, Closure, Setting


class Difference(NamedTuple):
    """A value for which the library chooses another tactic than the bundle."""

    problem: str
    bundle: str
    library: str


def differences(
    content: Manifest,
    setting: Setting,
    *,
    jobs: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Difference]:
    """All values for which the bundle's tactic is not the library's."""
    products = [product_of(entry) for entry in content.entries]
    one_by_one = setting._replace(at_once=False)
    closures = closure.close(products, one_by_one, jobs=jobs, progress=progress)
    for entry, closed in zip(content.entries, closures, strict=True):
        for value in entry.values:
            bundled, chosen = content.tactics[entry.number(value)], _chosen(closed, value)
            if bundled != chosen:
                yield Difference(str(closed.product.problem(value)), bundled, chosen)


def product_of(entry: Entry) -> Product:
    """The product of an entry."""
    problem = catalog.words_of(entry.family).problem
    example = problem(**entry.fields, **{entry.extent: entry.values[-1]})
    return Product(", ".join(entry.layers), entry.op, entry.family, example, entry.values, entry.extent)


def _chosen(closed: Closure, value: int) -> str:
    """The library's tactic for a value, or why it has none."""
    if closed.refusal:
        return closed.refusal
    first: Callable[[Chosen], int] = itemgetter(0)
    return closed.choices[bisect_right(closed.choices, value, key=first) - 1].tactic
