"""Which problems lean_times.py times."""

from __future__ import annotations

import argparse
import itertools

import pytest

pytest.importorskip("torch")

from benchmarks.fit import lean_times
from benchmarks.lib import gemm_problems


def asked(**changes: object) -> list[tuple[int, object]]:
    given = {
        **{"dtype": ["bf16"], "seeds": [5, 6], "sizes": None, "skip": 0, "wide": False},
        **{"layout": ["tn"], "batch": [1], "m": None, "n": None, "k": None},
    }
    return list(itertools.islice(lean_times.problems_of(argparse.Namespace(**given | changes)), 40))


def test_wide_problems_are_of_all_layouts() -> None:
    wide = asked(wide=True)
    expected = [list(itertools.islice(gemm_problems.wide("bf16", seed), 20)) for seed in (5, 6)]
    assert wide[::2] == [(5, problem) for problem in expected[0]]
    assert wide[1::2] == [(6, problem) for problem in expected[1]]
    assert {problem.layout for _, problem in wide} == {"tn", "tt", "nn", "nt"}  # type: ignore[attr-defined]


def test_bounds_hold_for_wide_problems_too() -> None:
    bounded = asked(wide=True, m=(1, 64))
    assert all(problem.m <= 64 for _, problem in bounded)  # type: ignore[attr-defined]
    assert {problem.layout for _, problem in asked()} == {"tn"}  # type: ignore[attr-defined]
