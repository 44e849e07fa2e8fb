"""Which problems and tactics split_times.py times, and what it writes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.fit import split_times
from benchmarks.lib.times_file import PEER

from tilewright.architectures.device import H200
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

COMPETING, LONG, FULL = Problem(105, 576, 9600), Problem(105, 12032, 32768), Problem(1000, 8192, 2048)


@pytest.fixture(autouse=True)
def _all_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [record for record in Registry().kernels("gemm") if mainloop_of(record) in ("lean", "stream")]
    monkeypatch.setattr(split_times, "built", lambda: own)


def test_draws_are_of_all_kinds_and_have_no_power_of_two_rows() -> None:
    problems = list(itertools.islice(split_times.drawn(5), 200))
    assert problems == list(itertools.islice(split_times.drawn(5), 200))
    assert {(problem.a, problem.layout) for problem in problems} > {
        ("bf16", "nt"),
        ("f16", "tt"),
        ("e4m3", "tn"),
    }
    for problem in problems:
        assert problem.m & (problem.m - 1)
        assert problem.k >= 1024
        assert problem.layout[0] == "t" or problem.m % 8 == 0


def test_tactics_with_and_without_splits_are_timed_where_they_compete() -> None:
    ranked = split_times.ranked(COMPETING, H200)
    assert ranked is not None
    first, *_ = FAMILY.rank(split_times.built(), COMPETING, H200)
    assert ranked.tactics[0] == first.tactic
    assert len(set(ranked.tactics)) == len(ranked.tactics)
    splits = [tactic for tactic in ranked.tactics if split_times.in_memory(tactic)]
    assert len(splits) >= split_times.SPLITS
    assert len(ranked.tactics) - len(splits) >= split_times.FIRST
    candidates = {
        tactic
        for record in FAMILY.fitting(split_times.built(), COMPETING)
        for tactic in FAMILY.candidates(record, COMPETING, H200)
    }
    fewer = set(ranked.tactics) - candidates  # parts that selection does not weigh
    assert fewer
    assert all(split_times.in_memory(tactic) and tactic.splits >= 2 for tactic in fewer)


def test_problems_without_competing_splits_are_left_out() -> None:
    assert split_times.ranked(LONG, H200) is None
    assert split_times.ranked(FULL, H200) is None


def test_a_file_has_means_of_cold_and_warm_times() -> None:
    medians: dict[str, Any] = {"warm": {PEER: 4.0, "x": 1.0}, "cold": {PEER: 9.0, "x": -0.5}}
    assert split_times.both(medians) == {PEER: 6.0, "x": 0.1}
