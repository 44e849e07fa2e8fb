"""Learns regression trees by gradient boosting, to be asked by `tilewright.selection.trees`. Needs numpy.

Examples come in groups: what all of one group have in common is not learnt, since only the order within a
group counts. Each tree is grown where it explains most, from a part of the groups and of the features, of
which some dozens of values are told apart.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[Any, Any]
MOST_VALUES = 64  # of a feature that a split distinguishes; they fit into a byte
LEAST_WEIGHT = 10.0  # of the examples of a leaf; a group's weigh this much together
FEATURES_SHARE, GROUPS_SHARE = 0.5, 0.7  # that a tree sees
SHRINKING = 1.0  # weight that each leaf has besides, of examples that are as they should
WRITTEN = ".5g"  # limits between values
MOST_ERROR = 0.2  # of an example, that counts


class Size(NamedTuple):
    """The size of what is learnt: trees, leaves of a tree, and the share of an error that a tree removes."""

    trees: int = 180
    leaves: int = 127
    rate: float = 0.1


LARGE = Size()


class Examples(NamedTuple):
    features: Numbers  # [examples, features]
    wanted: Numbers  # [examples]
    weights: Numbers  # [examples]
    groups: Numbers  # [examples], from 0


class Split(NamedTuple):
    """A split: examples whose feature is at most a threshold go to one node, the others to another."""

    feature: int
    most: float
    places: tuple[int, int]


Tree: TypeAlias = list[Split | float]  # the first node is where all begin


def learn(examples: Examples, size: Size = LARGE, seed: int = 0) -> list[Tree]:
    chance = np.random.default_rng(seed)
    count = int(examples.groups.max()) + 1
    added = np.bincount(examples.groups, examples.weights, count)
    weights = examples.weights * (LEAST_WEIGHT / added)[examples.groups]
    grower = _Grower(examples.features, weights, size)
    learnt, trees = np.zeros(len(weights)), []
    for _ in range(size.trees):
        errors = examples.wanted - learnt
        errors -= (np.bincount(examples.groups, errors * weights, count) / LEAST_WEIGHT)[examples.groups]
        rows = np.flatnonzero((chance.random(count) < GROUPS_SHARE)[examples.groups])
        width = examples.features.shape[1]
        features = chance.permutation(width)[: max(1, round(width * FEATURES_SHARE))]
        tree = grower.tree(np.clip(errors, -MOST_ERROR, MOST_ERROR) * weights, rows, features)
        learnt += answers(tree, examples.features)
        trees.append(tree)
    return trees


def answers(tree: Tree, features: Numbers) -> Numbers:
    """[examples]"""
    results, waiting = np.empty(len(features)), [(0, np.arange(len(features)))]
    while waiting:
        place, rows = waiting.pop()
        node = tree[place]
        if isinstance(node, Split):
            low = features[rows, node.feature] <= node.most
            waiting += [(node.places[0], rows[low]), (node.places[1], rows[~low])]
        else:
            results[rows] = node
    return results


def text(tree: Tree, unit: float) -> str:
    """A tree as text for `tilewright.selection.trees`: answers are whole numbers of units."""

    def words(place: int) -> Iterator[str]:
        node = tree[place]
        if isinstance(node, Split):
            yield f"{node.feature}<{node.most:{WRITTEN}}"
            for child in node.places:
                yield from words(child)
        else:
            yield f"{node / unit:.0f}"

    return " ".join(words(0))


class _Sums(NamedTuple):
    """Sums over a node's examples, by feature and value: [features, values]."""

    errors: Numbers
    weights: Numbers

    def without(self, other: _Sums) -> _Sums:
        return _Sums(self.errors - other.errors, self.weights - other.weights)

    def answer(self, rate: float) -> float:
        return float(self.errors[0].sum() / (self.weights[0].sum() + SHRINKING) * rate)

    def best(self) -> tuple[float, int, int]:
        """The gain of the best split, as a number below 0, and its feature and value."""
        low, weight = self.errors.cumsum(1), self.weights.cumsum(1)
        all_, whole = low[:, -1:], weight[:, -1:]
        gain = low**2 / (weight + SHRINKING) + (all_ - low) ** 2 / (whole - weight + SHRINKING)
        legal = (weight >= LEAST_WEIGHT) & (whole - weight >= LEAST_WEIGHT)
        gain = np.where(legal, gain - all_**2 / (whole + SHRINKING), 0.0)
        place = int(gain.argmax())
        return -float(gain.flat[place]), *divmod(place, gain.shape[1])


class _Grower:
    """Makes trees of one set of examples."""

    def __init__(self, features: Numbers, weights: Numbers, size: Size) -> None:
        self._limits = [_limits(column) for column in features.T]
        # Between two limits all values are alike.
        pairs = zip(self._limits, features.T, strict=True)
        self._values = np.stack([np.searchsorted(*each) for each in pairs]).astype(np.uint8)
        self._count = 1 + max(map(len, self._limits))
        self._weights, self._size = weights, size

    def tree(self, errors: Numbers, rows: Numbers, features: Sequence[int]) -> Tree:
        """`errors` are weighted. The leaf whose best split explains most is split first."""
        sums = self._sums(errors, rows, features)
        tree: Tree = [sums.answer(self._size.rate)]
        leaves = [(*sums.best(), 0, rows, sums)]
        while len(tree) < 2 * self._size.leaves - 1 and leaves[0][0] < 0:
            _, index, value, place, rows, sums = heapq.heappop(leaves)
            feature = features[index]
            low = self._values[feature, rows] <= value
            parts = [rows[low], rows[~low]]
            fewer = int(len(parts[1]) < len(parts[0]))  # whose sums are made; the others' is what is left
            fewer_sums = self._sums(errors, parts[fewer], features)
            both = [fewer_sums, sums.without(fewer_sums)][:: -1 if fewer else 1]
            places = len(tree), len(tree) + 1
            tree[place] = Split(int(feature), float(self._limits[feature][value]), places)
            for child, its_rows, its_sums in zip(places, parts, both, strict=True):
                tree.append(its_sums.answer(self._size.rate))
                heapq.heappush(leaves, (*its_sums.best(), child, its_rows, its_sums))
        return tree

    def _sums(self, errors: Numbers, rows: Numbers, features: Sequence[int]) -> _Sums:
        sums = _Sums(*np.empty((2, len(features), self._count)))
        its_errors, its_weights = errors[rows], self._weights[rows]
        for index, feature in enumerate(features):
            values = self._values[feature][rows]
            sums.errors[index] = np.bincount(values, its_errors, self._count)
            sums.weights[index] = np.bincount(values, its_weights, self._count)
        return sums


def _limits(column: Numbers) -> Numbers:
    """Between a feature's values: in the middle, or so that as many examples lie between two as between
    others. As they are written."""
    values = np.unique(column)
    limits = (values[1:] + values[:-1]) / 2
    if len(values) > MOST_VALUES:
        limits = np.quantile(column, np.linspace(0, 1, MOST_VALUES + 1)[1:-1])
    return np.unique([float(f"{limit:{WRITTEN}}") for limit in limits])
