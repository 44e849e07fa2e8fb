"""Chooses a tactic for a problem: deterministic, and able to say why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tilewright.device import DeviceProperties
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.ops.gemm import legality
from tilewright.ops.gemm.cost import Estimate, estimator
from tilewright.ops.gemm.problem import Kind, Problem
from tilewright.ops.gemm.tactics import Tactic, candidates
from tilewright.registry import Registry, jit_allowed
from tilewright.table import KernelRecord

FAMILY = "gemm"
# A built kernel is taken where its estimate exceeds the best one's by no more: about as much as the
# model errs, and not worth a minute of compiling.
BUILT_WITHIN = 0.1


class Candidate(NamedTuple):
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
    """The legal tactics, the best first: by estimate, then those that do nothing beyond the problem, then
    by name. Whether a kernel is built does not matter here; `choose` weighs it.

    `records` are kernels that run on the device. Estimates are compared to the nanosecond, so that
    the order does not hang on the last bit of a float.
    """
    return _rank(legality.fitting(records, problem), problem, device, is_built)


def _rank(
    fitting: Iterable[KernelRecord],
    problem: Problem,
    device: DeviceProperties,
    is_built: Callable[[KernelRecord], bool],
) -> list[Candidate]:
    ranked = []
    for record in fitting:
        weigh, built = estimator(record, problem, device), is_built(record)
        ranked += [Candidate(tactic, record, weigh(tactic), built) for tactic in candidates(record, problem)]
    ranked.sort(key=lambda one: (round(one.estimate.seconds * 1e9), _idle(one, problem), one.tactic))
    return ranked


def _idle(candidate: Candidate, problem: Problem) -> bool:
    return bool(candidate.record.config["bias"]) and not problem.bias


_kinds: WeakKeyDictionary[Registry, dict[Kind, tuple[Sequence[KernelRecord], list[KernelRecord]]]]
_kinds = WeakKeyDictionary()


def fitting(registry: Registry, records: Sequence[KernelRecord], problem: Problem) -> list[KernelRecord]:
    """As `legality.fitting`, of records that the registry keeps: those of a kind are looked for once."""
    kinds = _kinds.setdefault(registry, {})
    found = kinds.get(problem.kind)
    if found is None or found[0] is not records:
        of_kind = [record for record in records if legality.misfit_kind(record, problem.kind) is None]
        found = kinds[problem.kind] = (records, of_kind)
    return [record for record in found[1] if legality.misfit_extents(record, problem) is None]


def choose(
    registry: Registry,
    records: Sequence[KernelRecord],
    problem: Problem,
    device: DeviceProperties,
    tactic: Tactic | None = None,
) -> tuple[Tactic, KernelRecord]:
    """The tactic for a problem: the one demanded, if it is legal, else the model's first.

    A built kernel is preferred where it is about as good (`BUILT_WITHIN`). Where TILEWRIGHT_JIT=0 forbids
    to build, only built ones count, if there are any.

    Raises ArgumentError for a demanded tactic that does not fit, NoKernelError where none does.
    """
    if tactic is not None:
        record = registry.record(tactic.kernel)
        reason = legality.misfit_tactic(tactic, record, problem)
        if reason is None and record not in records:
            reason = f"it is compiled for {record.arch}, which does not run on {device.name}"
        if reason is not None:
            raise _misfit(tactic, problem, reason)
        return tactic, record
    ranked = _rank(fitting(registry, records, problem), problem, device, registry.is_built)
    if not ranked:
        raise NoKernelError(
            f"no {FAMILY} kernel computes {problem}:\n{legality.explain(records, problem)}",
            hint="Add a configuration to the spec, run `tilewright generate` and `tilewright build`.",
        )
    chosen = _prefer_built(ranked)
    return chosen.tactic, chosen.record


def _prefer_built(ranked: Sequence[Candidate]) -> Candidate:
    best = ranked[0]
    built = next((one for one in ranked if one.built), None)
    if built is None:
        return best  # where it may not be built, the registry says so
    near = built.estimate.seconds <= best.estimate.seconds * (1 + BUILT_WITHIN)
    return built if near or not jit_allowed() else best


def check_demand(registry: Registry, tactic: Tactic, problem: Problem) -> None:
    """Judges a tactic demanded for an empty problem, which needs no kernel, by what has no extents.

    Raises NoKernelError where no table lists the kernel, ArgumentError where it is of another kind.
    """
    record = registry.record(tactic.kernel)
    kind = problem.kind._replace(layout=record.config["layout"])  # an empty matrix lies in any layout
    reason = legality.misfit_kind(record, kind) or legality.misfit_splits(tactic, record)
    if reason is not None:
        raise _misfit(tactic, problem, reason)


def _misfit(tactic: Tactic, problem: Problem, reason: str) -> ArgumentError:
    return ArgumentError("tactic", f"{tactic.kernel} does not compute {problem}: {reason}")
