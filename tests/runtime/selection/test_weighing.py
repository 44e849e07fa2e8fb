"""Weighing, by made-up models: which tactics are estimated, and in which order they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from altered import altered

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.selection.estimates import Estimate
from tilewright.selection.kernels import Kernels
from tilewright.selection.weighing import MOST_REFINED, Candidate, weigh


def estimate(nanoseconds: float) -> Estimate:
    return Estimate(nanoseconds * 1e-9, 1, "math", 0.0, 0.0)


def kernel(name: str) -> Any:
    """All that is asked of a record here."""
    return SimpleNamespace(name=name)


class Models(Kernels[Any]):
    """Kernels whose tactics take the times of a table, in nanoseconds; `refined` has those of `refine`."""

    def __init__(
        self,
        times: Mapping[str, float],
        refined: Mapping[str, float] | None = None,
        extra: Collection[str] = (),
        invariant: Collection[str] = (),
    ) -> None:
        self.times, self.refined, self.extra, self.invariant = times, refined or {}, extra, invariant
        self.asked: list[str] = []  # of `estimator`
        self.nearest: list[str] = []  # that `refine` was asked about

    def candidates(self, record: Any, problem: Any, device: Any) -> list[Tactic]:
        return [tactic for tactic in map(Tactic.parse, self.times) if tactic.kernel == record.name]

    def misfit_invariant(self, tactic: Tactic, record: Any, problem: Any) -> str | None:
        return None if str(tactic) in self.invariant else "its order"

    def estimator(self, record: Any, problem: Any, device: Any) -> Callable[[Tactic], Estimate] | None:
        if record.name not in self.times:
            return None

        def of(tactic: Tactic) -> Estimate:
            self.asked.append(str(tactic))
            return estimate(self.times[str(tactic)])

        return of

    def refine(self, nearest: Any, problem: Any, device: Any) -> Sequence[Estimate | None]:
        self.nearest = [str(tactic) for _, tactic in nearest]
        return [estimate(self.refined[name]) if name in self.refined else None for name in self.nearest]

    def does_extra_work(self, record: Any, problem: Any) -> bool:
        return record.name in self.extra

    def weighed(self, *others: str, **options: bool) -> list[Candidate]:
        """The candidates of all kernels, and of `others`."""
        names = dict.fromkeys([*(Tactic.parse(text).kernel for text in self.times), *others])
        return weigh(self, map(kernel, names), None, H200, **options)


def names(candidates: Sequence[Candidate]) -> list[str]:
    return [str(candidate.tactic) for candidate in candidates]


def test_clusters_of_kernels_that_are_far_behind_are_not_estimated() -> None:
    """Far is more than twice the fastest time of one way to cut k, without clusters."""
    models = Models({
        "fast": 10, "fast@cluster=2x1": 9, "near": 20, "near@cluster=2x1": 8, "far": 21,
        "far@cluster=2x1": 1, "far@splits=2": 12, "far@cluster=2x1,splits=2": 7,
    })  # fmt: skip
    actual = names(models.weighed())
    expected = ["far@cluster=2x1,splits=2", "near@cluster=2x1", "fast@cluster=2x1", "fast", "far@splits=2"]
    assert actual == [*expected, "near", "far"]
    assert sorted(models.asked) == sorted(actual), "each is estimated once"


def test_equals_to_the_nanosecond_are_ordered_by_extra_work_and_name() -> None:
    models = Models({"a": 10.4, "d": 9.6, "c": 10.1, "b": 9.9}, extra=["a"])
    assert names(models.weighed()) == ["b", "c", "d", "a"]


def test_the_first_are_estimated_anew_and_ordered_by_that() -> None:
    times = {f"k{number:02}": 100.0 + number for number in range(MOST_REFINED + 2)}
    models = Models(dict(reversed(times.items())), refined={"k10": 1.0, "k49": 0.0, "k00": 147.0})
    candidates = models.weighed()
    assert models.nearest == [*times][:MOST_REFINED]
    rest = [name for name in times if name not in {"k10", "k00", "k47", "k48", "k49"}]
    assert names(candidates) == ["k10", *rest, "k00", "k47", "k48", "k49"]
    assert candidates[0].estimate == estimate(1.0)
    assert candidates[1].estimate == estimate(101.0)


def test_the_model_of_a_kernel_is_the_second_where_it_knows_the_tactic() -> None:
    models = Models({"a": 1.0, "b": 2.0}, refined={"a": 3.0})
    family = altered(FAMILY, estimator=models.estimator, refine=models.refine)
    a, b, unknown = (family.model(kernel(name), None, H200) for name in ("a", "b", "unknown"))
    assert a is not None
    assert b is not None
    assert [a(Tactic("a")), b(Tactic("b"))] == [estimate(3.0), estimate(2.0)]
    assert unknown is None


def test_a_kernel_that_no_model_knows_is_left_out() -> None:
    assert names(Models({"a": 1.0}).weighed("unknown")) == ["a"]
    assert Models({}).weighed("unknown") == []


def test_batch_invariant_mode_weighs_what_keeps_bits() -> None:
    models = Models({"a": 1.0, "a@splits=2": 2.0, "b": 3.0}, invariant=["a@splits=2", "b"])
    assert names(models.weighed()) == ["a", "a@splits=2", "b"]
    assert names(models.weighed(batch_invariant=True)) == ["a@splits=2", "b"]
    assert "a" not in models.asked[3:]
