"""A clock for tuning whose times are made up, and a search by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.errors import WrongResultError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools.tuning.search import Result, search
from tilewright.tools.tuning.stages import Options

PROBLEM = Problem(4096, 4096, 4096)


class Times:
    """A clock with times of its own, in units of the model's first: `of` a kernel, or of a whole tactic;
    every other takes what the model says. Each sample is slower by `drift` than the one before it."""

    def __init__(self, registry: Registry, of: dict[str, float | Exception], drift: float = 0.0) -> None:
        self.registry = registry
        self.of = of
        self.drift = drift
        self.wrong: set[str] = set()
        self.quicks: list[tuple[str, float]] = []
        self.agains: list[str] = []
        self.verified: list[str] = []
        self.peers: Iterator[float | Exception] = iter(())

    def __call__(self, problem: Any) -> Times:
        self.problem = problem
        ranked = FAMILY.rank(self.registry.kernels("gemm"), problem, H200)
        self.unit = ranked[0].estimate.seconds
        return self

    def seconds(self, tactic: Tactic) -> float:
        actual = self.of.get(str(tactic), self.of.get(tactic.kernel))
        if isinstance(actual, Exception):
            raise actual
        if actual is None:
            record = self.registry.record(tactic.kernel)
            model = FAMILY.estimator(record, self.problem, H200)
            assert model is not None
            return model(Tactic(tactic.kernel)).seconds
        return actual * self.unit

    def quick(self, tactic: Tactic, limit: float) -> float:
        self.quicks.append((str(tactic), limit / self.unit))
        return self.seconds(tactic)

    def again(self, tactic: Tactic) -> float:
        self.agains.append(str(tactic))
        return self.seconds(tactic) * (1 + self.drift * len(self.agains))

    def peer(self) -> float | None:
        actual = next(self.peers, None)
        if isinstance(actual, Exception):
            raise actual
        return actual

    def verify(self, tactic: Tactic) -> None:
        self.verified.append(str(tactic))
        if str(tactic) in self.wrong:
            raise WrongResultError("error norm 0.3")


def order(registry: Registry, problem: Problem = PROBLEM) -> list[str]:
    """The model's, of built kernels."""
    ranked = FAMILY.rank(registry.kernels("gemm"), problem, H200)
    return [candidate.tactic.kernel for candidate in ranked if candidate.tactic.kernel != "unbuilt"]


def run(registry: Registry, clock: Times, **options: Any) -> Result:
    given = {name: options.pop(name) for name in ("excluded", "incumbent", "near") if name in options}
    return search(FAMILY, registry, PROBLEM, H200, make_clock=clock, options=Options(**options), **given)
