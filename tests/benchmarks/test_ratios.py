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


def test_a_ratio_of_rounds_is_the_median_with_its_interval() -> None:
    own = [10.0 + number for number in range(12)]  # slower from round to round, as their peer is
    assert ratios.of_rounds([0.9 * time for time in own], own) == pytest.approx((0.9, 0.0))
    values = [1.0, 0.6, 0.9, 0.8, 0.7, 1.1, 1.2, 1.3, 1.4, 9.0, 0.5, 0.1]
    ratio, error = ratios.of_rounds([2 * value for value in values], [2.0] * 12)
    assert (ratio, error) == pytest.approx((0.95, (1.3 - 0.6) / 2))


@pytest.mark.parametrize(("count", "beyond"), [(1, 0), (4, 0), (6, 0), (12, 2), (48, 16)])
def test_an_interval_leaves_out_the_outermost_of_many_rounds(count: int, beyond: int) -> None:
    _, error = ratios.of_rounds([*map(float, range(count))], [1.0] * count)
    assert error == (count - 1) / 2 - beyond


def test_ratios_that_may_lie_on_either_side_are_counted() -> None:
    rows = [
        {"kind": "a", "ratio": ratio, "error": error}
        for ratio, error in [(0.93, 0.01), (0.93, 0.03), (0.97, 0.03), (1.2, 0.0)]
    ]
    (summary,) = ratios.summaries(rows, ("kind",))
    assert (summary["share at 0.95"], summary["unsure at 0.95"]) == (0.5, 0.5)
    (without,) = ratios.summaries([{"kind": "a", "ratio": 0.93}], ("kind",))
    assert "unsure at 0.95" not in without


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
