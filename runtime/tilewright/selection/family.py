"""The base class of families for selection: which problems their kernels compute, and how fast."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations import catalog
from tilewright.declarations.table import KernelRecord, Rows
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.libraries.registry import Registry
from tilewright.selection import weighing
from tilewright.selection.estimates import Estimate
from tilewright.selection.kernels import Kernels, P, Problem
from tilewright.selection.weighing import Candidate

if TYPE_CHECKING:
    from tilewright.declarations.vocabulary import Words

_kinds: WeakKeyDictionary[
    Registry, dict[tuple[str, Hashable], tuple[Sequence[KernelRecord], list[KernelRecord]]]
]
_kinds = WeakKeyDictionary()
# By the family's name: the last records and problem that `fitting_kept` was asked for, and its answer.
_fitting: WeakKeyDictionary[Registry, dict[str, tuple[Sequence[KernelRecord], Any, list[KernelRecord]]]]
_fitting = WeakKeyDictionary()


class Family(Kernels[P]):
    """Ranks the tactics of a family's kernels, and says why a kernel does not fit. Needs no torch.

    A family overrides the methods whose defaults do not hold for it.
    """

    name: str
    """The name of the family's package."""
    problem: type[P]
    """The frozen dataclass of the family's problems: extents, and the fields that define a problem's kind."""
    neighbour: str = "m"
    """The extent along which tuned entries serve neighbours: one tuned for m of 32 may suit m of 40."""
    decisive: tuple[str, ...] = ()
    """Fields that a problem's kind and a kernel's configuration both have, and that must be equal. Most rows
    of a table are skipped by the text of these fields, before they are parsed."""
    layouts: tuple[str, ...] = ()
    """The decisive fields that are memory layouts. An operand without elements has any layout."""
    only_if_named: tuple[Mapping[str, Any], ...] = ()
    """Values of a configuration's fields. Kernels that have all of one mapping run only if a call names them:
    selection and tuning leave them out."""
    placement: tuple[str, ...] = ("alignment",)
    """Fields that say how operands are aligned, if a problem has any. They decide which kernels fit, and
    hardly change the time of a kernel, so tuned files leave them out."""

    def variants(self, tactic: Tactic) -> Iterable[Tactic]:
        """The tactic with all values of the settings that selection leaves at their defaults, such as raster
        orders. Tuning tries these for the fastest tactics."""
        return (tactic,)

    def wider(self, tactic: Tactic) -> Iterable[Tactic]:
        """The tactic in clusters of eight that share both operands, as cuBLAS uses them if there are few
        tiles. Selection does not estimate them; tuning tries them for the fastest tactics."""
        return (replace(tactic, cluster=cluster) for cluster in ("2x4", "4x2") if tactic.splits == 1)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        """The published operations per second (of `Problem.flops`) of the GPU at its highest clock, for a
        kind of problem. None if it is not known, or if the family does not multiply."""
        return None

    @property
    def words(self) -> Words[P]:
        """The vocabulary of the family's problems on a command line; selection does not need it."""
        return catalog.words_of(self.name)

    @functools.cached_property
    def extents(self) -> tuple[str, ...]:
        """The fields of a problem that are numbers and may have any value."""
        return tuple(extent.name for extent in self.words.extents)

    def misfit_kind(self, record: KernelRecord, kind: Any) -> str | None:
        """Why the kernel computes no problem of the kind; None if it computes some."""
        for field in self.decisive:
            if record.config[field] != getattr(kind, field):
                return f"its {field} is {record.config[field]}, not {getattr(kind, field)}"
        return self.misfit_options(record, kind)

    def misfit(self, record: KernelRecord, problem: P) -> str | None:
        """Why the kernel does not compute the problem; None if it does."""
        return self.misfit_kind(record, problem.kind) or self.misfit_extents(record, problem)

    def misfit_tactic(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """Why the tactic does not compute the problem; None if it does."""
        reason = self.misfit_arguments(tactic, record) or self.misfit(record, problem)
        return reason or self.misfit_together(tactic, record, problem)

    def fitting(self, records: Iterable[KernelRecord], problem: P) -> list[KernelRecord]:
        """The kernels among `records` that compute the problem, without those that run only if named."""
        kind = problem.kind
        return [
            record
            for record in records
            if not (self.misfit_kind(record, kind) or self.misfit_extents(record, problem))
            and self._considers(record)
        ]

    def of_kind(
        self, registry: Registry, records: Sequence[KernelRecord], kind: Hashable
    ) -> list[KernelRecord]:
        """The kernels among `records` that compute a kind of problem, without those that run only if named.
        The answer is cached for each list of records that the registry keeps."""
        kinds = _kinds.setdefault(registry, {})
        cached = kinds.get((self.name, kind))
        if cached is None or cached[0] is not records:
            values = {name: getattr(kind, name) for name in self.decisive}
            likely = records.stating(values) if isinstance(records, Rows) else records
            of_kind = [
                record
                for record in likely
                if self.misfit_kind(record, kind) is None and self._considers(record)
            ]
            cached = kinds[self.name, kind] = (records, of_kind)
        return cached[1]

    def fitting_kept(
        self, registry: Registry, records: Sequence[KernelRecord], problem: P
    ) -> list[KernelRecord]:
        """Same as `fitting`, for a list of records that the registry keeps: `of_kind` is cached, and so is
        the last answer, because placement and selection ask for one problem in turn."""
        answers = _fitting.setdefault(registry, {})
        last = answers.get(self.name)
        if last is None or last[0] is not records or last[1] != problem:
            of_kind = self.of_kind(registry, records, problem.kind)
            fitting = [record for record in of_kind if self.misfit_extents(record, problem) is None]
            last = answers[self.name] = (records, problem, fitting)
        return last[2]

    def left_out(self, records: Iterable[KernelRecord], problem: P) -> Counter[str]:
        """The reasons why kernels do not compute the problem, with the number of kernels that each
        excludes."""
        reasons = (self._left_out(record, problem) for record in records)
        return Counter(reason for reason in reasons if reason is not None)

    def _considers(self, record: KernelRecord) -> bool:
        """Whether selection and tuning consider the kernel."""
        config = record.config
        return not any(
            all(config[field] == value for field, value in alone.items()) for alone in self.only_if_named
        )

    def _left_out(self, record: KernelRecord, problem: P) -> str | None:
        """Why selection does not consider the kernel for the problem; None if it does."""
        reason = self.misfit(record, problem)
        return reason if reason or self._considers(record) else "it runs only if a call names it"

    def explain(self, records: Sequence[KernelRecord], problem: P) -> str:
        """The reasons of `left_out` as lines: first those of the kernels that are most like the problem, then
        the commonest."""
        counts: Counter[str] = Counter()
        alike: dict[str, int] = {}  # matching decisive fields of the kernel with most of them, by reason
        for record in records:
            reason, kind = self._left_out(record, problem), problem.kind
            if reason is not None:
                counts[reason] += 1
                same = sum(record.config[field] == getattr(kind, field) for field in self.decisive)
                same += self.misfit_kind(record, kind) is None
                alike[reason] = max(alike.get(reason, 0), same)
        reasons = sorted(counts.items(), key=lambda item: (-alike[item[0]], -item[1]))[:8]
        return "\n".join(
            f"  {count} kernel{'' if count == 1 else 's'}: {reason}" for reason, count in reasons
        )

    def rank(
        self,
        records: Iterable[KernelRecord],
        problem: P,
        device: DeviceProperties,
    ) -> list[Candidate]:
        """The legal tactics, the best first: by estimate, then those without extra work, then by name.
        Whether a kernel is built does not matter here; `choose` checks it. A kernel that no cost model
        knows is left out.

        `records` are kernels that run on the device. Estimates are compared to the nanosecond, so that the
        order does not depend on the last bit of a float.
        """
        return self.weigh(self.fitting(records, problem), problem, device)

    def weigh(
        self,
        fitting: Iterable[KernelRecord],
        problem: P,
        device: DeviceProperties,
        *,
        batch_invariant: bool = False,
    ) -> list[Candidate]:
        """Same as `rank`, for kernels that are known to fit. `batch_invariant`: only tactics that count in
        this mode.

        Tactics for which the device has no room are left out.
        """
        return weighing.weigh(self, fitting, problem, device, batch_invariant=batch_invariant)

    def sweep(
        self,
        fitting: Sequence[KernelRecord],
        problem: P,
        values: Sequence[int],
        device: DeviceProperties,
        *,
        batch_invariant: bool = False,
    ) -> Mapping[int, Candidate]:
        """The first candidate of `weigh`, for many values of the `neighbour` extent at once; a value that is
        left out has to be weighed. `fitting` are the kernels that fit the largest value, which is the
        problem's."""
        return {}

    def model(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The best model of a kernel: `refine`, else `estimator`; None if no model knows the kernel."""
        weigh = self.estimator(record, problem, device)
        return weigh and (lambda tactic: self.refine([(record, tactic)], problem, device)[0] or weigh(tactic))

    def legal(
        self,
        registry: Registry,
        records: Sequence[KernelRecord],
        problem: P,
        device: DeviceProperties,
        tactic: Tactic,
    ) -> KernelRecord:
        """The kernel of a tactic that is demanded for a problem. `records` are the kernels that run on the
        device.

        Raises NoKernelError if no table lists the kernel, ArgumentError if it does not compute the problem.
        """
        record = self.demanded(registry, tactic)
        reason = self.misfit_tactic(tactic, record, problem)
        if reason is None and record not in records:
            reason = f"it is compiled for {record.arch}, which does not run on {device.name}"
        reason = reason or self.misfit_device(tactic, record, device)
        if reason is not None:
            raise _misfit(tactic, problem, reason)
        return record

    def check_demand(self, registry: Registry, tactic: Tactic, problem: P) -> None:
        """Checks a tactic that a caller demands for an empty problem, which needs no kernel: the kind must
        fit, whatever the extents and layouts.

        Raises NoKernelError if no table lists the kernel, ArgumentError if it is of another kind.
        """
        record = self.demanded(registry, tactic)
        layouts = {name: record.config[name] for name in self.layouts if name in record.config}
        kind = replace(cast(Any, problem), **layouts).kind  # a problem is a dataclass
        reason = self.misfit_kind(record, kind) or self.misfit_arguments(tactic, record)
        if reason is not None:
            raise _misfit(tactic, problem, reason)

    def demanded(self, registry: Registry, tactic: Tactic) -> KernelRecord:
        """The kernel of a tactic. Raises NoKernelError if no table lists it, ArgumentError if it is another
        family's."""
        table = registry.table_of(tactic.kernel)
        if table.family != self.name:
            raise ArgumentError(
                "tactic", f"{tactic.kernel} is a {table.family} kernel; expected a {self.name} kernel"
            )
        return table[tactic.kernel]


def _misfit(tactic: Tactic, problem: Problem, reason: str) -> ArgumentError:
    return ArgumentError("tactic", f"{tactic.kernel} does not compute {problem}: {reason}")
