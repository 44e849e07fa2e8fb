"""What counts in a choice for a problem: the kernels that compute it, and their tactics by the model."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.selection.family import Family

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.libraries.registry import Registry
    from tilewright.selection.weighing import Candidate

log = logging.getLogger("tilewright")


class Ranking:
    """The tactics for one problem. `records` are the family's kernels that run on the device."""

    def __init__(
        self,
        family: Family[Any],
        registry: Registry,
        records: Sequence[KernelRecord],
        problem: Any,
        device: DeviceProperties,
        *,
        batch_invariant: bool,
        first: Candidate | None = None,
    ) -> None:
        """`first`: the first of `ranked`, if the caller knows it."""
        self.family = family
        self.registry = registry
        self.records = records
        self.problem = problem
        self.device = device
        self.batch_invariant = batch_invariant
        self._foreknown = first

    @cached_property
    def fitting(self) -> list[KernelRecord]:
        """The kernels that compute the problem. Raises NoKernelError if none does."""
        fitting = self.family.fitting_kept(self.registry, self.records, self.problem)
        if not fitting:
            reasons = self.family.explain(self.records, self.problem)
            raise NoKernelError(
                f"no {self.family.name} kernel computes {self.problem}:\n{reasons}",
                hint="Where its rules allow one, a line of a spec adds it: see `tilewright explain "
                f"{self.family.name}`, then run `tilewright generate`.",
            )
        if log.isEnabledFor(logging.DEBUG):
            self._say_what_is_left_out(fitting)
        return fitting

    @cached_property
    def ranked(self) -> list[Candidate]:
        """The tactics that count, in the model's order; the first alone, if it is known already and can run.
        Raises NoKernelError if none is batch-invariant, as the caller demands."""
        if self._foreknown is not None and self._runs(self._foreknown):
            return [self._foreknown]
        ranked = self.family.weigh(
            self.fitting, self.problem, self.device, batch_invariant=self.batch_invariant
        )
        if self.batch_invariant and not ranked:
            free = self.family.weigh(self.fitting, self.problem, self.device)
            if free:
                raise self._none_invariant(free[0].tactic, free[0].record)
        return ranked

    def counting(self) -> list[KernelRecord]:
        """The kernels that compute the problem with a tactic that counts. Raises NoKernelError if there is
        none."""
        counting = [kernel for kernel in self.fitting if self._tactics(kernel)]
        if not counting:
            record = self.fitting[0]
            raise self._none_invariant(self.family.candidates(record, self.problem, self.device)[0], record)
        return counting

    def _tactics(self, record: KernelRecord) -> Sequence[Tactic]:
        """The kernel's tactics that count."""
        family = self.family
        tactics_of = family.invariant_candidates if self.batch_invariant else family.candidates
        return tactics_of(record, self.problem, self.device)

    def _none_invariant(self, tactic: Tactic, record: KernelRecord) -> NoKernelError:
        reason = self.family.misfit_invariant(tactic, record, self.problem)
        return NoKernelError(
            f"no {self.family.name} kernel computes {self.problem} batch-invariantly: {tactic}: {reason}",
            hint="Leave `tilewright.batch_invariant()`, or unset TILEWRIGHT_BATCH_INVARIANT.",
        )

    def _possible(self) -> Iterator[Candidate]:
        """The candidates that are built or can be built, in the model's order; all candidates if none can be
        built, and then the registry says why.

        Each candidate is checked only when it is reached, because a choice looks at the first few of
        hundreds.
        """
        runs = filter(self._runs, self.ranked)
        first = next(runs, None)
        return iter(self.ranked) if first is None else chain([first], runs)

    def _runs(self, candidate: Candidate) -> bool:
        return self.registry.is_built(candidate.record) or self.registry.buildable(candidate.record)

    @cached_property
    def first(self) -> Candidate | None:
        return next(self._possible(), None)

    @cached_property
    def first_built(self) -> Candidate | None:
        built = (candidate for candidate in self.ranked if self.registry.is_built(candidate.record))
        return next(built, None)

    def ahead(self) -> str:
        """How far the model's first tactic leads, as part of a sentence."""
        first = self.ranked[0]
        passed = ""
        if first is not self.first:
            passed = f"; passed over {first.tactic}: {self.registry.obstacle(first.record)}"
        return self._lead() + passed

    def _lead(self) -> str:
        by_time = groupby(self._possible(), lambda candidate: round(candidate.estimate.seconds * 1e9))
        best, equals = next(by_time)
        count = sum(1 for _ in equals)
        lead = f" among {count} as fast" if count > 1 else ""
        behind = next(by_time, None)
        if behind is None:
            return lead or ", and the only one"
        nanoseconds, slower = behind
        return f"{lead}, {nanoseconds / best - 1:.1%} ahead of {next(slower).tactic}"

    def first_tactic(self, record: KernelRecord) -> Tactic:
        return self._tactics(record)[0]

    def _say_what_is_left_out(self, fitting: Sequence[KernelRecord]) -> None:
        of_kind = self.family.of_kind(self.registry, self.records, self.problem.kind)
        if len(of_kind) > len(fitting):
            log.debug(
                "%s: of the %d kernels of its kind %d take it; the others:\n%s", self.problem,
                len(of_kind), len(fitting), self.family.explain(of_kind, self.problem),
            )  # fmt: skip
