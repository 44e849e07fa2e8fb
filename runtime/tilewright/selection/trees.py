"""Evaluates regression trees that a benchmark has learnt (benchmarks/fit/boosting.py), in plain Python.

A tree is a line of text in prefix order: `3<0.5 -12 7<1.25 30 -4` asks whether feature 3 is at most 0.5. If
so, the answer is -12, else the tree asks for feature 7.

All rows of features go through a tree at once, because most of their features are equal. The rows that reach
a node are one large integer with a lane of bits for each row, whose value is 1 or 0. One AND gives the rows
that go on to the first child, and one product adds an answer for all rows that reach it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import or_
from typing import Any, TypeAlias

LANE = 32  # bits of a lane, which holds the sum of thousands of answers
LEAST = -(1 << 16)  # the least answer; lanes hold differences from it, which are not negative

# The number of a question, the node for yes, and the node for no; or an answer minus LEAST.
Node: TypeAlias = tuple[int, Any, Any] | int


class Trees:
    """A sum of trees."""

    def __init__(self, text: str) -> None:
        self._questions: dict[str, int] = {}
        self._trees = [self._node(iter(line.split())) for line in text.splitlines()]
        pairs = (question.split("<") for question in self._questions)
        self._asked = [(int(feature), float(most)) for feature, most in pairs]

    def answers(self, rows: Sequence[Sequence[float]]) -> list[int]:
        """The sum of the trees' answers for each row of features, in the unit of the text."""
        lanes = [1 << LANE * index for index in range(len(rows))]
        features = [_column(column, lanes) for column in zip(*rows, strict=True)]
        yes = [
            features[feature][1][bisect_right(features[feature][0], most)] for feature, most in self._asked
        ]
        total, waiting = 0, [(tree, sum(lanes)) for tree in self._trees]
        while waiting:
            node, rows_here = waiting.pop()
            while type(node) is tuple:
                question, low, high = node
                first = rows_here & yes[question]
                if first == rows_here:
                    node = low
                elif not first:
                    node = high
                else:
                    waiting.append((high, rows_here ^ first))
                    node, rows_here = low, first
            total += rows_here * node  # type: ignore[operator]
        mask, least = (1 << LANE) - 1, LEAST * len(self._trees)
        return [(total >> LANE * index & mask) + least for index in range(len(rows))]

    def _node(self, words: Iterator[str]) -> Node:
        word = next(words)
        if "<" not in word:
            return int(word) - LEAST
        question = self._questions.setdefault(word, len(self._questions))
        return question, self._node(words), self._node(words)


def _column(values: Sequence[float], lanes: Sequence[int]) -> tuple[list[float], list[int]]:
    """A feature's values in order, and for each count the lanes of that many smallest values."""
    order = sorted(range(len(values)), key=values.__getitem__)
    lanes_in_order = (lanes[row] for row in order)
    return [values[row] for row in order], list(accumulate(lanes_in_order, or_, initial=0))
