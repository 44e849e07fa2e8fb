"""Sides of a benchmark that take turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from benchmarks.lib import in_turn


def sampled(sides: str, rounds: int, *, rotate: bool, settling: int = 0) -> tuple[str, dict[str, float]]:
    """The order in which sides are asked, of which each answers how often any was, and their medians."""
    asked: list[str] = []

    def side(name: str) -> Callable[[], float]:
        def sample() -> float:
            asked.append(name)
            return float(len(asked))

        return sample

    samples = {name: side(name) for name in sides}
    actual = in_turn.medians(samples, rounds, rotate=rotate, settling=settling)
    return "".join(asked), actual


def test_each_side_is_asked_in_each_round() -> None:
    order, actual = sampled("abc", 3, rotate=False)
    assert order == "abcabcabc"
    assert actual == {"a": 4.0, "b": 5.0, "c": 6.0}


def test_every_side_begins_equally_often() -> None:
    order, _ = sampled("abc", 7, rotate=True)
    rounds = ["".join(each) for each in zip(*[iter(order)] * 3, strict=True)]
    assert rounds == ["abc", "bca", "cab", "cba", "acb", "bac", "abc"]


def test_one_slow_sample_does_not_count() -> None:
    samples = itertools.chain([9.0], itertools.repeat(1.0))
    assert in_turn.medians({"a": lambda: next(samples)}, 3) == {"a": pytest.approx(1.0)}


def test_samples_do_not_count_until_the_clocks_have_settled() -> None:
    order, actual = sampled("ab", 1, rotate=True, settling=2)
    assert len(order) == 6
    assert sorted(actual.values()) == [5.0, 6.0]


@pytest.mark.parametrize(
    ("round_seconds", "longest_call", "short", "rounds"),
    [(0.03, 1e-3, 0.0, 4), (0.03, 1e-5, 0.0, 0), (0.003, 1e-5, 0.02, 7), (5.0, 1.0, 0.0, 1)],
)
def test_long_calls_settle_longer(
    round_seconds: float, longest_call: float, short: float, rounds: int
) -> None:
    assert in_turn.settling_rounds(round_seconds, longest_call, short=short) == rounds
