"""Which problems and tactics cold_dense_times.py times."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.fit import cold_dense_times
from benchmarks.lib import times_file

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import learnt
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry


def order_of(problem: Problem) -> list[Tactic]:
    own = [record for record in Registry().kernels("gemm") if mainloop_of(record) in ("lean", "stream")]
    return [candidate.tactic for candidate in FAMILY.rank(own, problem, H200)]


def test_first_tactics_first_kernels_and_other_clusters_are_timed() -> None:
    order = order_of(Problem(200, 1096, 1000))
    timed = cold_dense_times.chosen(order)
    assert timed[: cold_dense_times.FIRST] == order[: cold_dense_times.FIRST]
    assert len(timed) == len(set(timed)) == cold_dense_times.MOST
    kernels = list(dict.fromkeys(tactic.kernel for tactic in order))
    assert {*kernels[: cold_dense_times.KERNELS // 2]} <= {tactic.kernel for tactic in timed}


def test_a_short_ranking_is_timed_whole() -> None:
    order = [Tactic("a"), Tactic("b", cluster="2x1"), Tactic("a", cluster="1x2"), Tactic("a", cluster="2x2")]
    assert {*cold_dense_times.chosen(order)} == {*order}


def test_clusters_of_the_first_kernels_are_timed_behind_many_others() -> None:
    many = [Tactic(f"kernel_{number}") for number in range(20)]
    cluster, split = Tactic("kernel_0", cluster="4x1"), Tactic("kernel_0", cluster="4x1", splits=2)
    timed = cold_dense_times.chosen([*many, many[1], cluster, split, Tactic("kernel_0", cluster="2x1")])
    assert {cluster, split, Tactic("kernel_0", cluster="2x1")} <= {*timed}
    assert Tactic("kernel_19") not in timed


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_problems_are_short_and_trees_are_asked_about_them(dtype: str) -> None:
    drawn = list(itertools.islice(cold_dense_times.problems(dtype, 3), 100))
    assert {problem.a for problem in drawn} == {dtype}
    assert len({problem.layout for problem in drawn}) == 4
    assert all(problem.n >= learnt.LEAST_N for problem in drawn)
    assert max(map(cold_dense_times.rough_seconds, drawn)) < cold_dense_times.LONGEST_SECONDS


def test_times_of_given_extents_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are medians of rounds."""

    class Graphs:
        def __init__(self, case: Any, between: Any, measures: tuple[str, ...]) -> None:
            self.measure, self.rounds = measures[0], dict[tuple[str, str], list[float]]()

        def add(self, side: str, call: Any) -> None:
            middle = 10.0 + len(self.rounds)
            self.rounds[self.measure, side] = [middle, 90.0, 1.0]

        def microseconds(self) -> dict[tuple[str, str], list[float]]:
            return self.rounds

    path = tmp_path / "times.csv.bz2"
    tactics = [Tactic("a"), Tactic("b", splits=2)]
    case = SimpleNamespace(peers={"cublas": None})
    device = SimpleNamespace(device=lambda number: H200)
    monkeypatch.setattr(cold_dense_times, "Graphs", Graphs)
    monkeypatch.setattr(cold_dense_times, "Between", lambda: None)
    monkeypatch.setattr(cold_dense_times, "free_memory", lambda: None)
    monkeypatch.setattr(cold_dense_times, "built", lambda: [])
    monkeypatch.setattr(cold_dense_times, "chosen", lambda order: tactics)
    monkeypatch.setattr(cold_dense_times, "case_of", lambda problem, theirs: case)
    monkeypatch.setattr(cold_dense_times.contexts, "current", lambda: device)
    monkeypatch.setattr(cold_dense_times.machine, "require_gpu", lambda: None)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    shapes = ["--dtype", "f16", "--shape", "128x4096x4104", "64x4096x512"]
    monkeypatch.setattr("sys.argv", ["cold_dense_times", *shapes, "--output", str(path)])
    assert cold_dense_times.main() == 0
    first, second = times_file.read([path])
    assert first.problem == Problem(128, 4096, 4104, a="f16", b="f16", d="f16")
    assert (second.problem.m, second.problem.k) == (64, 512)
    assert first.peer == pytest.approx(10e-6)
    assert first.seconds == pytest.approx({tactics[0]: 11e-6, tactics[1]: 12e-6})
