"""Which problems and tactics cold_dense_times.py times."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("torch")

from benchmarks.fit import cold_dense_times

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
