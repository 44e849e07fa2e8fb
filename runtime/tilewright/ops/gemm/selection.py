"""Chooses a tactic for a problem: deterministic, and able to say why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilewright.device import DeviceProperties
from tilewright.ops.gemm import legality
from tilewright.ops.gemm.cost import Estimate, estimate
from tilewright.ops.gemm.problem import Problem
from tilewright.ops.gemm.tactics import Tactic, candidates
from tilewright.table import KernelRecord


@dataclass(frozen=True, slots=True)
class Candidate:
    tactic: Tactic
    record: KernelRecord
    estimate: Estimate
    built: bool


def rank(
    records: Iterable[KernelRecord],
    problem: Problem,
    device: DeviceProperties,
    is_built: Callable[[KernelRecord], bool] = lambda record: True,
) -> list[Candidate]:
    """The legal tactics, the best first: built kernels before others, then by estimate, then by name.

    `records` are kernels that run on the device. Estimates are compared to the nanosecond, so that
    the order does not hang on the last bit of a float.
    """
    ranked = [
        Candidate(tactic, record, estimate(tactic, record, problem, device), is_built(record))
        for record in legality.fitting(records, problem)
        for tactic in candidates(record, problem)
    ]
    ranked.sort(key=lambda one: (not one.built, round(one.estimate.seconds * 1e9), one.tactic))
    return ranked
