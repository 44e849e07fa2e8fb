"""Chooses the tactic that computes a problem, and says why. The choice is deterministic.

In this order: the tactic that the caller demands; the tactic tuned for the problem; the tactic tuned for its
nearest neighbour; the cost model's first; the table's first kernel.

The choice depends on the problem, the device, the tables and the tuned files. It depends on which kernels are
built only if TILEWRIGHT_JIT says so: with `0` only built kernels count; with `lazy` a built kernel replaces a
better one that would have to be compiled, if the model puts it at most `BUILT_WITHIN` behind.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.libraries.builds import built_preferred, jit_allowed
from tilewright.selection.family import Family
from tilewright.selection.kernels import P
from tilewright.selection.ranking import Ranking

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.libraries.registry import Registry
    from tilewright.selection.estimates import Estimate
    from tilewright.selection.tuned import Tuned
    from tilewright.selection.weighing import Candidate

log = logging.getLogger("tilewright")

# With TILEWRIGHT_JIT=lazy, a built kernel is preferred if its estimate exceeds the best estimate by at most
# this share. It is about the model's error, which is not worth a minute of compiling.
BUILT_WITHIN = 0.1
# The share of its time that a neighbour's tuned tactic may lose against the model's first tactic between the
# neighbour and the problem, by the model. Tuning saw it win for the neighbour. It loses little on the way if
# both tactics cut both problems into equally full tiles and equally many waves. The model's error does not
# matter, because it is the same for the neighbour and for the problem.
NEIGHBOUR_WITHIN = 0.03

Source = Literal["demanded", "tuned", "neighbour", "model", "default", "bundle"]


class Choice(NamedTuple):
    """A tactic and its kernel, its source, and the reason for people."""

    tactic: Tactic
    record: KernelRecord
    source: Source
    why: str


def choose(
    family: Family[P],
    registry: Registry,
    records: Sequence[KernelRecord],
    problem: P,
    device: DeviceProperties,
    *,
    tactic: Tactic | None = None,
    tuned: Tuned | None = None,
    batch_invariant: bool = False,
    first: Candidate | None = None,
) -> Choice:
    """Chooses the tactic for a problem: the demanded one, if it is legal; else the one tuned for the problem,
    or for its nearest neighbour; else the model's first; without a model, the first kernel of the table.

    `records` are the family's kernels that run on the device. If TILEWRIGHT_JIT=0 forbids building, only
    built kernels count, unless none is built. With TILEWRIGHT_JIT=lazy a built kernel is preferred if it is
    about as good (`BUILT_WITHIN`). A kernel that needs newer CUTLASS headers than the installed ones counts
    only if it is built.

    `batch_invariant`: only tactics count that give a row of the result the same bits in every batch
    (`Kernels.misfit_invariant`).

    `first`: the model's first tactic that counts, if the caller knows it already (`Family.sweep`).

    Raises ArgumentError if a demanded tactic does not fit, NoKernelError if no kernel does.
    """
    if tactic is None:
        ranking = Ranking(
            family, registry, records, problem, device, batch_invariant=batch_invariant, first=first
        )
        return _Selection(ranking).choose(tuned)
    record = family.legal(registry, records, problem, device, tactic)
    if batch_invariant and (reason := family.misfit_invariant(tactic, record, problem)) is not None:
        raise ArgumentError("tactic", f"{tactic} is not batch-invariant: {reason}")
    return Choice(tactic, record, "demanded", "the caller names it")


class _Selection:
    """One choice for one problem."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._family, self._registry = ranking.family, ranking.registry
        self._problem, self._device = ranking.problem, ranking.device
        self._unbuilt: Choice | None = None  # the tuned choice that was passed over because it is not built

    def choose(self, tuned: Tuned | None) -> Choice:
        """Chooses. Raises NoKernelError if no kernel computes the problem."""
        choice = (
            (tuned and (self._exact(tuned) or self._near(tuned))) or self._by_model() or self._by_default()
        )
        if self._unbuilt is not None:
            tactic, record, source, _ = self._unbuilt
            rule = self._registry.obstacle(record) if jit_allowed() else "TILEWRIGHT_JIT=0"
            target = "it" if source == "tuned" else "its neighbour"
            why = f"{choice.why}; {tactic}, which is tuned for {target}, is not built ({rule})"
            choice = choice._replace(why=why)
        log.debug("%s: %s, %s, %s", self._problem, choice.tactic, choice.source, choice.why)
        return choice

    def _exact(self, tuned: Tuned) -> Choice | None:
        entry = tuned.entry(self._problem)
        if entry is None or not self._usable(entry.tactic):
            return None
        why = f"{entry.seconds * 1e6:.2f} us were measured ({entry.path})"
        return self._tuned(Choice(entry.tactic, self._registry.record(entry.tactic.kernel), "tuned", why))

    def _usable(self, tactic: Tactic) -> bool:
        """Whether a tuned tactic counts, and runs on the device: it may be tuned on another GPU of the same
        name."""
        record = self._registry.record(tactic.kernel)
        reason = self._family.misfit_device(tactic, record, self._device)
        if reason is None and self._ranking.batch_invariant:
            reason = self._family.misfit_invariant(tactic, record, self._problem)
        if reason is not None:
            log.debug("%s: passed over %s, which is tuned: %s", self._problem, tactic, reason)
        return reason is None

    def _near(self, tuned: Tuned) -> Choice | None:
        near = tuned.neighbour(self._problem)
        if near is None or not self._usable(near[0]):
            return None
        tactic, neighbour = near
        record = self._registry.record(tactic.kernel)
        if self._ranking.first:
            first = self._ranking.first
            if not jit_allowed():
                first = self._ranking.first_built or first
            at_problem, at_neighbour = (
                self._behind((tactic, record), first, point) for point in (self._problem, neighbour)
            )
            entry = tuned.entry(neighbour)
            # Tuning compared the tactic with the kernels that existed then, not with a newer one.
            seen = entry is None or not entry.seen or first.record.name in entry.seen
            limit = (1 + at_neighbour) * (1 + NEIGHBOUR_WITHIN) - 1 if seen else 0.0
            if at_problem > limit:
                log.debug(
                    "%s: passed over %s, tuned for %s: the model puts it %.0f%% behind %s, and %.0f%% there",
                    self._problem, tactic, self._name_of(neighbour), 100 * at_problem, first.tactic,
                    100 * at_neighbour,
                )  # fmt: skip
                return None
        why = f"tuned for {self._name_of(neighbour)}, the nearest"
        return self._tuned(Choice(tactic, record, "neighbour", why))

    def _behind(self, own: tuple[Tactic, KernelRecord], first: Candidate, problem: Any) -> float:
        """The share of the time of `first` by which the model puts a tactic behind it for a problem; 0 unless
        the model knows both."""
        seconds = []
        for tactic, record in (own, (first.tactic, first.record)):
            weigh = self._family.model(record, problem, self._device)
            if weigh is None:
                return 0.0
            seconds.append(weigh(tactic).seconds)
        return seconds[0] / seconds[1] - 1

    def _name_of(self, neighbour: Any) -> str:
        """The text for a neighbour: `m of 48`."""
        name = self._family.neighbour
        return f"{name} of {getattr(neighbour, name)}"

    def _tuned(self, choice: Choice) -> Choice | None:
        """The choice, if its kernel is built, or if it may be compiled and is worth it."""
        if self._registry.is_built(choice.record):
            return choice
        if not jit_allowed() or not self._registry.buildable(choice.record):
            log.debug("%s: passed over %s, which is not built and cannot be", self._problem, choice.tactic)
            self._unbuilt = self._unbuilt or choice
            return None
        if not built_preferred():
            return choice
        built, estimate = self._ranking.first_built, self._estimate(choice.tactic, choice.record)
        if built is None or estimate is None:
            return choice
        if built.estimate.seconds > estimate.seconds * (1 + BUILT_WITHIN):
            return choice
        why = f"built, and by the model about as good as {choice.tactic}, which is {choice.source}, not built"
        return Choice(built.tactic, built.record, "model", why)

    def _by_model(self) -> Choice | None:
        best = self._ranking.first
        if best is None:
            return None
        built = None if jit_allowed() and not built_preferred() else self._ranking.first_built
        if built is None or built is best:  # if building it is forbidden, the registry says so
            return Choice(best.tactic, best.record, "model", f"the model's first{self._ranking.ahead()}")
        behind = built.estimate.seconds / best.estimate.seconds - 1
        if jit_allowed() and behind > BUILT_WITHIN:
            why = f"the model's first{self._ranking.ahead()}; the best built one is {behind:.0%} behind"
            return Choice(best.tactic, best.record, "model", why)
        rule = f"at most {BUILT_WITHIN:.0%}" if jit_allowed() else "TILEWRIGHT_JIT=0"
        why = f"the model's first of those built, {behind:.1%} behind {best.tactic}, which is not ({rule})"
        return Choice(built.tactic, built.record, "model", why)

    def _by_default(self) -> Choice:
        """The choice if no model knows the kernels: the first that is built or can be; where built kernels
        are preferred, the first that is built, else the first that can be."""
        registry, first_built = self._registry, not jit_allowed() or built_preferred()
        counting = self._ranking.counting()
        runs = [kernel for kernel in counting if registry.is_built(kernel) or registry.buildable(kernel)]
        built = [kernel for kernel in runs if registry.is_built(kernel)] if first_built else []
        record = (built or runs or counting)[0]
        which = "built " if built else ""
        why = f"the table's first {which}kernel that takes the problem: no cost model knows {record.arch}"
        return Choice(self._ranking.first_tactic(record), record, "default", why)

    def _estimate(self, tactic: Tactic, record: KernelRecord) -> Estimate | None:
        weigh = self._family.model(record, self._problem, self._device)
        return None if weigh is None else weigh(tactic)
