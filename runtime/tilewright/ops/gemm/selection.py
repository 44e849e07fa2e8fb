"""Chooses a tactic for a problem: deterministic, and able to say why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.device import DeviceProperties
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.ops.gemm import legality
from tilewright.ops.gemm.cost import Estimate, estimator
from tilewright.ops.gemm.problem import Problem
from tilewright.ops.gemm.tactics import Tactic, candidates
from tilewright.registry import Registry
from tilewright.table import KernelRecord

FAMILY = "gemm"


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
    """The legal tactics, the best first: built kernels before others, then by estimate, then those that
    do nothing beyond the problem, then by name.

    `records` are kernels that run on the device. Estimates are compared to the nanosecond, so that
    the order does not hang on the last bit of a float.
    """
    ranked = []
    for record in legality.fitting(records, problem):
        weigh, built = estimator(record, problem, device), is_built(record)
        ranked += [Candidate(tactic, record, weigh(tactic), built) for tactic in candidates(record, problem)]
    ranked.sort(
        key=lambda one: (not one.built, round(one.estimate.seconds * 1e9), _idle(one, problem), one.tactic)
    )
    return ranked


def _idle(candidate: Candidate, problem: Problem) -> bool:
    return bool(candidate.record.config["bias"]) and not problem.bias


def choose(
    registry: Registry,
    records: Sequence[KernelRecord],
    problem: Problem,
    device: DeviceProperties,
    tactic: Tactic | None = None,
) -> tuple[Tactic, KernelRecord]:
    """The tactic for a problem: the one demanded, if it is legal, else the model's first.

    Raises ArgumentError for a demanded tactic that does not fit, NoKernelError where none does.
    """
    if tactic is not None:
        record = registry.record(tactic.kernel)
        reason = legality.misfit_tactic(tactic, record, problem)
        if reason is None and record not in records:
            reason = f"it is compiled for {record.arch}, which does not run on {device.name}"
        if reason is not None:
            raise ArgumentError("tactic", f"{tactic.kernel} does not compute {problem}: {reason}")
        return tactic, record
    ranked = rank(records, problem, device, registry.is_built)
    if not ranked:
        raise NoKernelError(
            f"no {FAMILY} kernel computes {problem}:\n{legality.explain(records, problem)}",
            hint="Add a configuration to the spec, run `tilewright generate` and `tilewright build`.",
        )
    return ranked[0].tactic, ranked[0].record
