"""Summaries of ratios, and times of launches between other kernels."""

from __future__ import annotations

import itertools

import pytest
from benchmarks.lib import ratios


def test_the_other_kernels_time_is_subtracted() -> None:
    assert ratios.net_microseconds(32.5e-6, 20e-6) == pytest.approx(12.5)
    assert ratios.net_microseconds(9e-6, 0.0) == pytest.approx(9.0)


@pytest.mark.parametrize("total", [20e-6, 19e-6, float("nan")])
def test_a_launch_that_takes_no_time_is_noise(total: float) -> None:
    with pytest.raises(ValueError, match=r"those alone 20\.00 us"):
        ratios.net_microseconds(total, 20e-6)


def test_a_mean_of_ratios_is_geometric() -> None:
    summary = ratios.summary([0.5, 2.0, 0.95, 1.0])
    assert summary["geomean"] == pytest.approx(0.95**0.25, abs=1e-4)
    assert (summary["count"], summary["least"]) == (4, 0.5)
    assert (summary["share at 0.95"], summary["share at 1"]) == (0.75, 0.5)


def test_rows_are_summarised_by_their_keys() -> None:
    rows = [
        {"kind": "a", "measure": "warm", "ratio": 1.0},
        {"kind": "a", "measure": "cold", "ratio": 0.5},
        {"kind": "a", "measure": "warm", "ratio": 4.0},
    ]
    warm, cold = ratios.summaries(rows, ("kind", "measure"))
    assert (warm["kind"], warm["measure"], warm["count"], warm["geomean"]) == ("a", "warm", 2, 2.0)
    assert (cold["measure"], cold["count"], cold["least"]) == ("cold", 1, 0.5)


def test_a_table_has_a_cell_for_what_is_missing() -> None:
    lines = ratios.table(["model", "1"], [["a", 1.25], ["b", None]])
    assert lines == ["| model | 1 |", "|---|---|", "| a | 1.250 |", "| b |  |"]


def test_parts_cover_all_items_once() -> None:
    items = list(range(7))
    taken = [items[part - 1 :: parts] for part, parts in map(ratios.part_of, ("1/3", "2/3", "3/3"))]
    assert sorted(itertools.chain(*taken)) == items


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (what int and tuples say of a text differs)
        ratios.part_of(text)
