"""Regression trees that a benchmark has learnt (benchmarks/fit/boosting.py), asked in plain Python.

A tree is a line of text, its nodes before what follows from them: `3<0.5 -12 7<1.25 30 -4` asks whether
feature 3 is at most 0.5; if so it answers -12, else it asks for feature 7.

All rows of features go through a tree at once, since they are alike in most. Which of them come to a node is
one large integer with a lane of bits for each row, 1 or 0: one AND tells which go on to the first of two
nodes, and an answer is added for all that come to it by one product.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import or_
from typing import Any, TypeAlias

LANE = 32  # bits: sums of thousands of answers
LEAST = -(1 << 16)  # of answers: lanes hold what is added to it

# The number of a question, and the nodes that follow a yes and a no; or an answer over LEAST.
Node: TypeAlias = tuple[int, Any, Any] | int


class Trees:
    """Trees whose answers are added."""

    def __init__(self, text: str) -> None:
        self._questions: dict[str, int] = {}
        self._trees = [self._node(iter(line.split())) for line in text.splitlines()]
        pairs = (one.split("<") for one in self._questions)
        self._asked = [(int(feature), float(most)) for feature, most in pairs]

    def answers(self, rows: Sequence[Sequence[float]]) -> list[int]:
        """The sum for each row of features, in the unit in which they were written."""
        lanes = [1 << LANE * index for index in range(len(rows))]
        features = [_column(column, lanes) for column in zip(*rows, strict=True)]
        yes = [
            features[feature][1][bisect_right(features[feature][0], most)] for feature, most in self._asked
        ]
        total, waiting = 0, [(tree, sum(lanes)) for tree in self._trees]
        while waiting:
            node, there = waiting.pop()
            while type(node) is tuple:
                question, low, high = node
                first = there & yes[question]
                if first == there:
                    node = low
                elif not first:
                    node = high
                else:
                    waiting.append((high, there ^ first))
                    node, there = low, first
            total += there * node  # type: ignore[operator]
        mask, least = (1 << LANE) - 1, LEAST * len(self._trees)
        return [(total >> LANE * index & mask) + least for index in range(len(rows))]

    def _node(self, words: Iterator[str]) -> Node:
        word = next(words)
        if "<" not in word:
            return int(word) - LEAST
        question = self._questions.setdefault(word, len(self._questions))
        return question, self._node(words), self._node(words)


def _column(values: Sequence[float], lanes: Sequence[int]) -> tuple[list[float], list[int]]:
    """A feature's values in order, and for each number of them the lanes of the first so many."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [values[one] for one in order], list(accumulate((lanes[one] for one in order), or_, initial=0))
