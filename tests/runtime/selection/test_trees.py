"""Trees that were learnt, asked in plain Python."""

from __future__ import annotations

import pytest

from tilewright.selection.trees import FEW, Trees

TEXT = "1<0.5 -12 0<1.25 30 -4\n7\n0<-1 100 200\n"


ROWS = {
    (0.0, 0.5): -12 + 7 + 200,  # at most: the first
    (0.0, 0.51): 30 + 7 + 200,
    (1.25, 9.0): 30 + 7 + 200,
    (1.26, 9.0): -4 + 7 + 200,
    (-1.0, 0.0): -12 + 7 + 100,
    (-2.0, 0.6): 30 + 7 + 100,
}


@pytest.mark.parametrize("rows", [list(ROWS), list(ROWS)[::-1] * 20, *([row] for row in ROWS)], ids=len)
def test_answers_of_all_trees_are_added_for_each_row(rows: list[tuple[float, ...]]) -> None:
    assert Trees(TEXT).answers(rows) == [ROWS[row] for row in rows]


def test_lanes_hold_large_sums_apart() -> None:
    least, most = "0<0.5 -65536 65535\n" * 5000, "0<0.5 65535 -65536\n" * 5000
    for count in (1, FEW):  # one row after the other, and in lanes
        rows = [(0.0,), (1.0,), (0.0,)] * count
        assert Trees(least).answers(rows) == [-65536 * 5000, 65535 * 5000, -65536 * 5000] * count
        assert Trees(most).answers(rows) == [65535 * 5000, -65536 * 5000, 65535 * 5000] * count


def test_answers_of_columns_are_those_of_rows() -> None:
    np = pytest.importorskip("numpy")
    rows = list(ROWS) * 7
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    trees = Trees(TEXT)
    assert trees.answers_of(columns, np.arange(len(rows))).tolist() == trees.answers(rows)
