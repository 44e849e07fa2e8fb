"""What lean kernels' estimates learnt from measurements: its bounds, its features, its GPUs."""

from __future__ import annotations

import math

import pytest
from committed_lean_kernels import BY_NAME, KERNELS, SMALLER, WIDE

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.declarations.tactics import Tactic
from tilewright.errors import UnreadableFileError
from tilewright.families.gemm import cost_lean, learnt
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.selection.corrections import MOST
from tilewright.selection.trees import Trees
from tilewright.selection.weighing import MOST_REFINED

NEAREST = 16  # tactics among which the trees found the fastest


def test_what_is_learnt_orders_the_first_anew() -> None:
    """And those alone; each estimate of theirs is the refined one."""
    problem = Problem(195, 704, 13056)
    ranked = FAMILY.rank(KERNELS, problem, H200)
    assert len(ranked) > 2 * MOST_REFINED
    refined = FAMILY.refine(
        [(candidate.record, candidate.tactic) for candidate in ranked[:MOST_REFINED]], problem, H200
    )
    assert [candidate.estimate for candidate in ranked[:MOST_REFINED]] == refined
    for candidate in ranked[MOST_REFINED:]:
        model = cost_lean.estimator(candidate.record, problem, H200)
        assert candidate.estimate == model(candidate.tactic)
    for part in (ranked[:MOST_REFINED], ranked[MOST_REFINED:]):
        seconds = [round(candidate.estimate.seconds * 1e9) for candidate in part]
        assert seconds == sorted(seconds)
    coarse = [
        cost_lean.estimator(candidate.record, problem, H200)(candidate.tactic).seconds for candidate in ranked
    ]
    assert coarse[:MOST_REFINED] != sorted(coarse[:MOST_REFINED])
    assert max(coarse[:MOST_REFINED]) <= min(coarse[MOST_REFINED:]) + 1e-9


@pytest.mark.parametrize(
    ("layout", "m", "n", "k"),
    [("nt", 4144, 456, 16184), ("nn", 272, 11880, 5936), ("nn", 4016, 3120, 424), ("nt", 1504, 1296, 18248)],
)
def test_kernels_that_need_a_cluster_are_weighed(layout: str, m: int, n: int, k: int) -> None:
    """Among the mechanisms' first tactics. A kernel's tactic without a cluster may be far behind."""
    problem = Problem(m, n, k, layout=layout)
    estimates = [
        (cost_lean.estimator(record, problem, H200)(tactic).seconds, tactic)
        for record in FAMILY.fitting(KERNELS, problem)
        for tactic in FAMILY.candidates(record, problem, H200)
    ]
    weighed = {candidate.tactic for candidate in FAMILY.rank(KERNELS, problem, H200)}
    assert {tactic for _, tactic in sorted(estimates)[:NEAREST]} <= weighed


def test_what_is_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a problem is like; and it multiplies an estimate with all that it is made of."""
    problem, record, tactic = Problem(800, 8192, 64), BY_NAME[WIDE], Tactic(WIDE, cluster="2x1")
    kernel = cost_lean.Kernel(record, problem, H200)
    plain = kernel.estimate(terms := kernel.terms(tactic))
    (by,) = learnt.CORRECTIONS.factors([learnt.features(kernel, terms)])
    (refined,) = learnt.refine([(record, tactic)], problem, H200)
    assert refined
    assert 1 != by == pytest.approx(refined.seconds / plain.seconds)
    assert refined.seconds == pytest.approx(refined.main_loop + refined.overhead)
    assert refined.overhead == pytest.approx(by * plain.overhead)
    for sign in (-1, 1):
        monkeypatch.setattr(
            learnt.CORRECTIONS, "trees", lambda _, sign=sign: Trees(f"0<9999 {sign * 30000} 0")
        )
        (bounded,) = learnt.refine([(record, tactic)], problem, H200)
        assert bounded
        assert bounded.seconds == pytest.approx(plain.seconds * math.exp(sign * MOST))


def test_trees_ask_for_features_that_there_are() -> None:
    """Features have the same names for all kernels and tactics, and trees ask for nearly every one."""
    kernel = cost_lean.Kernel(BY_NAME[WIDE], Problem(800, 8192, 640), H200)
    features = learnt.features(kernel, kernel.terms(Tactic(WIDE)))
    nodes = learnt.CORRECTIONS.weights.read_text(encoding="utf-8").split()
    asked = {int(node.partition("<")[0]) for node in nodes if "<" in node}
    assert asked <= set(range(len(features)))
    assert len(asked) > 0.9 * len(features)


def test_trees_learnt_from_other_features_are_refused() -> None:
    """A reorder of features would else show only as worse choices."""
    kernel = cost_lean.Kernel(BY_NAME[WIDE], Problem(800, 8192, 640), H200)
    names = list(learnt.features(kernel, kernel.terms(Tactic(WIDE))))
    learnt.CORRECTIONS.trees(tuple(names))
    for wrong in (names[::-1], names[1:], [*names, "more"], [*names[:-1], "renamed"]):
        with pytest.raises(UnreadableFileError, match="learnt from other features: expected 'features: "):
            learnt.CORRECTIONS.trees(tuple(wrong))


@pytest.mark.parametrize("device", SMALLER, ids=lambda device: f"{device.sm_count} SMs")
def test_trees_are_asked_about_gpus_of_the_size_that_taught_them(device: DeviceProperties) -> None:
    problem = Problem(195, 704, 13056)
    assert learnt.is_learnt(problem, H200)
    assert not learnt.is_learnt(problem, device)
    best = FAMILY.rank(KERNELS, problem, device)[0]
    assert best.estimate == cost_lean.estimator(best.record, problem, device)(best.tactic)


@pytest.mark.parametrize(
    ("problem", "learnt_of"),
    [
        (Problem(195, 704, 13056), True),
        (Problem(17, 6144, 4096), True),
        (Problem(3, 6144, 4096), True),
        (Problem(6144, 17, 4096), True),
        (Problem(6144, 16, 4096), False),
        (Problem(6164, 7040, 3200), True),
        (Problem(6164, 7040, 3200, a="e4m3", b="e4m3"), True),
        (Problem(6164, 7040, 3200, a="e4m3", b="e4m3", fast_accum=True), True),
        (Problem(195, 704, 13056, batch=64), True),
        (Problem(195, 704, 13056, layout="tt"), True),
    ],
    ids=str,
)
def test_where_anything_is_learnt(problem: Problem, learnt_of: bool) -> None:
    assert learnt.is_learnt(problem, H200) == learnt_of
    ranked = FAMILY.rank(KERNELS, problem, H200)[:MOST_REFINED]
    mechanisms = [
        cost_lean.estimator(candidate.record, problem, H200)(candidate.tactic) for candidate in ranked
    ]
    assert ([candidate.estimate for candidate in ranked] != mechanisms) == learnt_of
