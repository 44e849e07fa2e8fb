"""Evaluates regression trees that a benchmark has learnt (benchmarks/fit/boosting.py), in plain Python.

A tree is a line of text in prefix order: `3<0.5 -12 7<1.25 30 -4` asks whether feature 3 is at most 0.5. If
so, the answer is -12, else the tree asks for feature 7.

All rows of features go through a tree at once, because most of their features are equal. The rows that reach
a node are one large integer with a lane of bits for each row, whose value is 1 or 0. One AND gives the rows
that go on to the first child, and one product adds an answer for all rows that reach it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import or_
from typing import Any

LANE = 32  # bits of a lane, which holds the sum of thousands of answers
FEW = 8  # rows: fewer are quicker one after the other
LEAST = -(1 << 16)  # the least answer; lanes hold differences from it, which are not negative


class Trees:
    """A sum of trees."""

    def __init__(self, text: str) -> None:
        # All nodes, from the last word to the first: a question's node for yes is the one before it.
        self._codes: list[int] = []  # the number of a question, or an answer minus LEAST
        self._no: list[int] = []  # the node for no; -1 for an answer
        self._roots: list[int] = []
        questions: dict[str, int] = {}
        for line in text.splitlines():
            self._add(line, questions)
        pairs = (question.split("<") for question in questions)
        self._asked = [(int(feature), float(most)) for feature, most in pairs]

    def answers(self, rows: Sequence[Sequence[float]]) -> list[int]:
        """The sum of the trees' answers for each row of features, in the unit of the text."""
        if len(rows) < FEW:
            return [self._answer(row) for row in rows]
        lanes = [1 << LANE * index for index in range(len(rows))]
        features = [_column(column, lanes) for column in zip(*rows, strict=True)]
        yes = [
            features[feature][1][bisect_right(features[feature][0], most)] for feature, most in self._asked
        ]
        codes, no = self._codes, self._no
        total, waiting = 0, [(root, sum(lanes)) for root in self._roots]
        while waiting:
            node, rows_here = waiting.pop()
            while (alternative := no[node]) >= 0:
                first = rows_here & yes[codes[node]]
                if not first:
                    node = alternative
                    continue
                if first != rows_here:
                    waiting.append((alternative, rows_here ^ first))
                    rows_here = first
                node -= 1
            total += rows_here * codes[node]
        mask, least = (1 << LANE) - 1, LEAST * len(self._roots)
        return [(total >> LANE * index & mask) + least for index in range(len(rows))]

    def _answer(self, row: Sequence[float]) -> int:
        """Same as `answers`, for one row, which asks only the questions on its way."""
        asked, codes, no, total = self._asked, self._codes, self._no, LEAST * len(self._roots)
        for node in self._roots:
            while (alternative := no[node]) >= 0:
                feature, most = asked[codes[node]]
                node = node - 1 if row[feature] <= most else alternative  # noqa: PLW2901
            total += codes[node]
        return total

    def answers_of(self, columns: Sequence[Any], numbers: Any) -> Any:
        """Same as `answers`, for thousands of rows: a column of numpy for each feature, and the array of the
        rows' numbers."""
        codes, no = self._codes, self._no
        total = numbers * 0
        for root in self._roots:
            waiting = [(root, numbers)]
            while waiting:
                node, here = waiting.pop()
                while here.size and (alternative := no[node]) >= 0:
                    feature, most = self._asked[codes[node]]
                    agree = columns[feature][here] <= most
                    waiting.append((alternative, here[~agree]))
                    here = here[agree]
                    node -= 1
                if here.size:
                    total[here] += codes[node] + LEAST
        return total

    def _add(self, line: str, questions: dict[str, int]) -> None:
        """Adds a tree. No object is made of a node: thousands would keep the garbage collector busy."""
        codes, no = self._codes, self._no
        waiting: list[int] = []
        for word in reversed(line.split()):
            if "<" in word:
                waiting.pop()  # the node before this one
                no.append(waiting.pop())
                codes.append(questions.setdefault(word, len(questions)))
            else:
                no.append(-1)
                codes.append(int(word) - LEAST)
            waiting.append(len(codes) - 1)
        (root,) = waiting
        self._roots.append(root)


def _column(values: Sequence[float], lanes: Sequence[int]) -> tuple[list[float], list[int]]:
    """A feature's values in order, and for each count the lanes of that many smallest values."""
    order = sorted(range(len(values)), key=values.__getitem__)
    lanes_in_order = (lanes[row] for row in order)
    return [values[row] for row in order], list(accumulate(lanes_in_order, or_, initial=0))
