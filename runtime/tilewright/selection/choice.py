"""Which tactic computes a problem: the one demanded, else what is tuned for it, else what is tuned for nearly
it, else the cost model's first, else the first kernel of the table. Deterministic, and able to say why."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.libraries.builds import jit_allowed
from tilewright.selection.family import Family
from tilewright.selection.kernels import P

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.libraries.registry import Registry
    from tilewright.selection.estimates import Estimate
    from tilewright.selection.family import Candidate
    from tilewright.selection.tuned import Tuned

log = logging.getLogger("tilewright")

# A built kernel is taken where its estimate exceeds the best one's by no more: about as much as the
# model errs, and not worth a minute of compiling.
BUILT_WITHIN = 0.1
# What is tuned for a neighbour beat the model's first there. It is taken where the model has it lose no more
# against that on the way to the problem: where each cuts both into tiles that are as full, and into as many
# waves. How far the model errs with either tactic does not matter, since it does so on both sides.
BUCKET_WITHIN = 0.03

Source = Literal["demanded", "tuned", "bucket", "model", "default"]


class Choice(NamedTuple):
    """A tactic and its kernel, where it comes from, and for people why."""

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
) -> Choice:
    """The tactic for a problem: the one demanded, if it is legal; else the one tuned for it, or for its
    nearest neighbour; else the model's first; without a model, the first kernel of the table.

    `records` are the family's kernels that run on the device. A built kernel is preferred where it is about
    as good (`BUILT_WITHIN`). Where TILEWRIGHT_JIT=0 forbids to build, only built ones count, if there are
    any. One that needs newer CUTLASS headers than there are counts if it is built.

    Raises ArgumentError for a demanded tactic that does not fit, NoKernelError where none does.
    """
    if tactic is None:
        return _Selection(family, registry, records, problem, device).choose(tuned)
    record = family.legal(registry, records, problem, device, tactic)
    return Choice(tactic, record, "demanded", "the caller names it")


class _Selection:
    """One choice for one problem. `records` are the family's kernels that run on the device."""

    def __init__(
        self,
        family: Family[Any],
        registry: Registry,
        records: Sequence[KernelRecord],
        problem: Any,
        device: DeviceProperties,
    ) -> None:
        self._family = family
        self._registry = registry
        self._records = records
        self._problem = problem
        self._device = device
        self._unbuilt: Choice | None = None  # tuned, and passed over because it is not built

    def choose(self, tuned: Tuned | None) -> Choice:
        """Raises NoKernelError where no kernel computes the problem."""
        choice = (
            (tuned and (self._exact(tuned) or self._bucket(tuned))) or self._by_model() or self._by_default()
        )
        if self._unbuilt is not None:
            tactic, record, source, _ = self._unbuilt
            rule = self._registry.obstacle(record) if jit_allowed() else "TILEWRIGHT_JIT=0"
            of = "is tuned for it" if source == "tuned" else "is tuned for its neighbour"
            choice = choice._replace(why=f"{choice.why}; {tactic}, which {of}, is not built ({rule})")
        log.debug("%s: %s, %s, %s", self._problem, choice.tactic, choice.source, choice.why)
        return choice

    @cached_property
    def fitting(self) -> list[KernelRecord]:
        """The kernels that compute the problem. Raises NoKernelError where none does."""
        fitting = self._family.fitting_kept(self._registry, self._records, self._problem)
        if not fitting:
            reasons = self._family.explain(self._records, self._problem)
            raise NoKernelError(
                f"no {self._family.name} kernel computes {self._problem}:\n{reasons}",
                hint="Where its rules allow one, a line of a spec adds it: see `tilewright explain "
                f"{self._family.name}`, then run `tilewright generate`.",
            )
        if log.isEnabledFor(logging.DEBUG):
            self._say_what_is_left_out(fitting)
        return fitting

    @cached_property
    def _ranked(self) -> list[Candidate]:
        return self._family.weigh(self.fitting, self._problem, self._device)

    def _possible(self) -> Iterator[Candidate]:
        """The model's order of what is built or can be; where nothing is, of all: the registry says why.

        Each is asked about when its turn comes, because a choice looks at the first few of hundreds.
        """
        runs = filter(self._runs, self._ranked)
        first = next(runs, None)
        return iter(self._ranked) if first is None else chain([first], runs)

    def _runs(self, one: Candidate) -> bool:
        return self._registry.is_built(one.record) or self._registry.buildable(one.record)

    @cached_property
    def _first(self) -> Candidate | None:
        return next(self._possible(), None)

    @cached_property
    def _first_built(self) -> Candidate | None:
        return next((one for one in self._ranked if self._registry.is_built(one.record)), None)

    def _exact(self, tuned: Tuned) -> Choice | None:
        found = tuned.found(self._problem)
        if found is None or not self._has_room(found.tactic):
            return None
        why = f"{found.seconds * 1e6:.2f} us were measured ({found.path})"
        return self._tuned(Choice(found.tactic, self._registry.record(found.tactic.kernel), "tuned", why))

    def _has_room(self, tactic: Tactic) -> bool:
        """Whether the device runs a tactic that was tuned, on another GPU of its name maybe."""
        reason = self._family.misfit_device(tactic, self._registry.record(tactic.kernel), self._device)
        if reason is not None:
            log.debug("%s: passed over %s, which is tuned: %s", self._problem, tactic, reason)
        return reason is None

    def _bucket(self, tuned: Tuned) -> Choice | None:
        near = tuned.bucket(self._problem)
        if near is None or not self._has_room(near[0]):
            return None
        tactic, other = near
        record = self._registry.record(tactic.kernel)
        if self._first:
            first = self._first if jit_allowed() else self._first_built or self._first
            here, there = (self._behind((tactic, record), first, one) for one in (self._problem, other))
            found = tuned.found(other)
            # What was not there when the neighbour was tuned is not known to be behind.
            seen = found is None or not found.seen or first.record.name in found.seen
            limit = (1 + there) * (1 + BUCKET_WITHIN) - 1 if seen else 0.0
            if here > limit:
                log.debug(
                    "%s: passed over %s, tuned for %s: the model puts it %.0f%% behind %s, and %.0f%% there",
                    self._problem, tactic, self._neighbour(other), 100 * here, first.tactic, 100 * there,
                )  # fmt: skip
                return None
        why = f"tuned for {self._neighbour(other)}, the nearest"
        return self._tuned(Choice(tactic, record, "bucket", why))

    def _behind(self, one: tuple[Tactic, KernelRecord], first: Candidate, problem: Any) -> float:
        """By how much of its time the model puts a tactic behind another, for a problem; 0 where it knows
        one of them not."""
        seconds = []
        for tactic, record in (one, (first.tactic, first.record)):
            weigh = self._family.model(record, problem, self._device)
            if weigh is None:
                return 0.0
            seconds.append(weigh(tactic).seconds)
        return seconds[0] / seconds[1] - 1

    def _neighbour(self, other: Any) -> str:
        """What a neighbour is called: `m of 48`."""
        name = self._family.neighbour
        return f"{name} of {getattr(other, name)}"

    def _tuned(self, choice: Choice) -> Choice | None:
        """The choice, if its kernel is built, or is worth its compiling and may be."""
        if self._registry.is_built(choice.record):
            return choice
        if not jit_allowed() or not self._registry.buildable(choice.record):
            log.debug("%s: passed over %s, which is not built and cannot be", self._problem, choice.tactic)
            self._unbuilt = self._unbuilt or choice
            return None
        built, estimate = self._first_built, self._estimate(choice.tactic, choice.record)
        if built is None or estimate is None:
            return choice
        if built.estimate.seconds > estimate.seconds * (1 + BUILT_WITHIN):
            return choice
        why = f"built, and by the model about as good as {choice.tactic}, which is {choice.source}, not built"
        return Choice(built.tactic, built.record, "model", why)

    def _by_model(self) -> Choice | None:
        best, built = self._first, self._first_built
        if best is None:
            return None
        if built is None or built is best:  # where it may not be built, the registry says so
            return Choice(best.tactic, best.record, "model", f"the model's first{self._ahead()}")
        behind = built.estimate.seconds / best.estimate.seconds - 1
        if jit_allowed() and behind > BUILT_WITHIN:
            why = f"the model's first{self._ahead()}; the best built one is {behind:.0%} behind"
            return Choice(best.tactic, best.record, "model", why)
        rule = f"at most {BUILT_WITHIN:.0%}" if jit_allowed() else "TILEWRIGHT_JIT=0"
        why = f"the model's first of those built, {behind:.1%} behind {best.tactic}, which is not ({rule})"
        return Choice(built.tactic, built.record, "model", why)

    def _ahead(self) -> str:
        """How far the model's first leads, as part of a sentence."""
        first = self._ranked[0]
        passed = ""
        if first is not self._first:
            passed = f"; passed over {first.tactic}: {self._registry.obstacle(first.record)}"
        return self._lead() + passed

    def _lead(self) -> str:
        by_time = groupby(self._possible(), lambda one: round(one.estimate.seconds * 1e9))
        best, alike = next(by_time)
        count = sum(1 for _ in alike)
        lead = f" among {count} as fast" if count > 1 else ""
        behind = next(by_time, None)
        if behind is None:
            return lead or ", and the only one"
        nanoseconds, others = behind
        return f"{lead}, {nanoseconds / best - 1:.1%} ahead of {next(others).tactic}"

    def _by_default(self) -> Choice:
        """Where no model knows the kernels: the first that is built, else the first that can be."""
        registry = self._registry
        record = (
            next((one for one in self.fitting if registry.is_built(one)), None)
            or next((one for one in self.fitting if registry.buildable(one)), None)
            or self.fitting[0]
        )
        built = "built " if registry.is_built(record) else ""
        why = f"the table's first {built}kernel that takes the problem: no cost model knows {record.arch}"
        return Choice(self._family.candidates(record, self._problem)[0], record, "default", why)

    def _estimate(self, tactic: Tactic, record: KernelRecord) -> Estimate | None:
        weigh = self._family.model(record, self._problem, self._device)
        return None if weigh is None else weigh(tactic)

    def _say_what_is_left_out(self, fitting: Sequence[KernelRecord]) -> None:
        of_kind = self._family.of_kind(self._registry, self._records, self._problem.kind)
        if len(of_kind) > len(fitting):
            log.debug(
                "%s: of the %d kernels of its kind %d take it; the others:\n%s", self._problem,
                len(of_kind), len(fitting), self._family.explain(of_kind, self._problem),
            )  # fmt: skip
