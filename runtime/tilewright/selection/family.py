"""A family as selection sees it: what its kernels compute, what they take, how long they take."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations import catalog
from tilewright.declarations.table import KernelRecord, Rows
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.libraries.registry import Registry
from tilewright.selection.estimates import Estimate
from tilewright.selection.kernels import Kernels, P, Problem

if TYPE_CHECKING:
    from tilewright.declarations.vocabulary import Words

# Tactics that `refine` estimates anew. Of 759 dense products, the fastest that was timed was among the
# first 48 of 95 %, and the choice among these was as good as among the first 96.
MOST_REFINED = 48
# Behind the fastest such: a kernel with k cut in one way, in no clusters; its clusters are not weighed then.
# Of 160 dense products drawn at random each had the choice that 1.5 leaves, by 130 estimates less of 740.
FAR = 1.3


class Candidate(NamedTuple):
    tactic: Tactic
    record: KernelRecord
    estimate: Estimate


_Weighed = tuple[float, bool, Tactic, Candidate]  # nanoseconds, whether it does extra work, then by name
_Weigh = Callable[[Tactic], _Weighed]
_ORDER = itemgetter(0, 1, 2)
_IN_PARTS = attrgetter("splits", "decomposition")  # how a tactic cuts k


_kinds: WeakKeyDictionary[
    Registry, dict[tuple[str, Hashable], tuple[Sequence[KernelRecord], list[KernelRecord]]]
]
_kinds = WeakKeyDictionary()


class Family(Kernels[P]):
    """Chooses among a family's kernels: deterministic, and able to say why. Needs no torch.

    A family overrides what is not the usual.
    """

    name: str
    """Its package's name."""
    problem: type[P]
    """The frozen dataclass of its problems: extents, and the fields by which tuned files tell kinds apart."""
    neighbour: str = "m"
    """The extent along which tuned entries serve neighbours: one tuned for m of 32 may suit m of 40."""
    decisive: tuple[str, ...] = ()
    """Fields that a problem's kind and a kernel's configuration both have, and which must be equal. By their
    text most rows of a table are passed over before they are parsed."""
    layouts: tuple[str, ...] = ()
    """Those of the decisive fields that are memory layouts. An operand without elements has any layout."""
    placement: tuple[str, ...] = ("alignment",)
    """Fields that say how operands are aligned, if a problem has such. They decide which kernels take it, and
    hardly how long one takes, so tuned files leave them out."""

    def variants(self, tactic: Tactic) -> Iterable[Tactic]:
        """The tactic with every setting that selection leaves at its default, such as raster orders: tuning
        tries these for the fastest tactics."""
        return (tactic,)

    def wider(self, tactic: Tactic) -> Iterable[Tactic]:
        """The tactic in clusters of eight that share both operands, as cuBLAS has them where tiles are few.
        Selection does not estimate them; tuning tries them for the fastest tactics."""
        return (replace(tactic, cluster=cluster) for cluster in ("2x4", "4x2") if tactic.splits == 1)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        """Operations a second (of `Problem.flops`) that the GPU reaches at its highest clock for a kind of
        problem, as published. None where that is not known, or where the family does not multiply."""
        return None

    @property
    def words(self) -> Words[P]:
        """The words in which its problems are asked for on a command line; selection does not need them."""
        return catalog.words_of(self.name)

    @functools.cached_property
    def extents(self) -> tuple[str, ...]:
        """The fields of a problem that are numbers and may take any value."""
        return tuple(one.name for one in self.words.extents)

    def misfit_kind(self, record: KernelRecord, kind: Any) -> str | None:
        """None where the kernel computes problems of the kind, for some extents, else the reason."""
        for field in self.decisive:
            if record.config[field] != getattr(kind, field):
                return f"its {field} is {record.config[field]}, not {getattr(kind, field)}"
        return self.misfit_options(record, kind)

    def misfit(self, record: KernelRecord, problem: P) -> str | None:
        """None where the kernel computes the problem, else the reason."""
        return self.misfit_kind(record, problem.kind) or self.misfit_extents(record, problem)

    def misfit_tactic(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """None where the tactic computes the problem, else the reason."""
        reason = self.misfit_arguments(tactic, record) or self.misfit(record, problem)
        return reason or self.misfit_together(tactic, record, problem)

    def fitting(self, records: Iterable[KernelRecord], problem: P) -> list[KernelRecord]:
        kind, of_kind = problem.kind, self.misfit_kind
        return [one for one in records if not (of_kind(one, kind) or self.misfit_extents(one, problem))]

    def of_kind(
        self, registry: Registry, records: Sequence[KernelRecord], kind: Hashable
    ) -> list[KernelRecord]:
        """The kernels among `records` that compute a kind of problem. The answer is kept for each list of
        records that the registry keeps."""
        kinds = _kinds.setdefault(registry, {})
        found = kinds.get((self.name, kind))
        if found is None or found[0] is not records:
            values = {name: getattr(kind, name) for name in self.decisive}
            likely = records.stating(values) if isinstance(records, Rows) else records
            of_kind = [record for record in likely if self.misfit_kind(record, kind) is None]
            found = kinds[self.name, kind] = (records, of_kind)
        return found[1]

    def fitting_kept(
        self, registry: Registry, records: Sequence[KernelRecord], problem: P
    ) -> list[KernelRecord]:
        """As `fitting`, for records that the registry keeps: those of the kind are looked for once."""
        of_kind = self.of_kind(registry, records, problem.kind)
        return [record for record in of_kind if self.misfit_extents(record, problem) is None]

    def left_out(self, records: Iterable[KernelRecord], problem: P) -> Counter[str]:
        """Why kernels do not compute the problem: each reason with the number of kernels that it excludes."""
        reasons = (self.misfit(record, problem) for record in records)
        return Counter(reason for reason in reasons if reason is not None)

    def explain(self, records: Sequence[KernelRecord], problem: P) -> str:
        """`left_out` as lines: first what kernels say that are most like those wanted, then the commonest
        reasons."""
        counts: Counter[str] = Counter()
        alike: dict[str, int] = {}  # decisive fields that are as wanted, of the kernel that has most of them
        for record in records:
            reason, kind = self.misfit(record, problem), problem.kind
            if reason is not None:
                counts[reason] += 1
                same = sum(record.config[field] == getattr(kind, field) for field in self.decisive)
                same += self.misfit_kind(record, kind) is None
                alike[reason] = max(alike.get(reason, 0), same)
        reasons = sorted(counts.items(), key=lambda one: (-alike[one[0]], -one[1]))[:8]
        return "\n".join(f"  {count} kernel{'s' * (count != 1)}: {reason}" for reason, count in reasons)

    def rank(
        self,
        records: Iterable[KernelRecord],
        problem: P,
        device: DeviceProperties,
    ) -> list[Candidate]:
        """The legal tactics, the best first: by estimate, then those that do nothing beyond the problem,
        then by name. Whether a kernel is built does not matter here; `choose` asks. A kernel that no cost
        model knows is left out.

        `records` are kernels that run on the device. Estimates are compared to the nanosecond, so that
        the order does not hang on the last bit of a float.
        """
        return self.weigh(self.fitting(records, problem), problem, device)

    def weigh(
        self,
        fitting: Iterable[KernelRecord],
        problem: P,
        device: DeviceProperties,
    ) -> list[Candidate]:
        """As `rank`, of kernels that are known to fit.

        Tactics for which the device has no room are left out.

        Candidates of a kernel that cut k alike follow one another and differ in their clusters. Only the
        first of them is estimated where that is far behind the fastest (`FAR`). The `MOST_REFINED` that come
        first are estimated again by `refine`, and ordered by that.
        """
        ranked: list[_Weighed] = []
        others: list[tuple[float, _Weigh, list[Tactic]]] = []
        for record in fitting:
            weigh = self._weigher(record, problem, device)
            if weigh is None:
                continue
            possible = self._possible(record, problem, device)
            for _, alike in itertools.groupby(possible, _IN_PARTS):
                first, *rest = alike
                ranked.append(weigh(first))
                if rest:
                    others.append((ranked[-1][0], weigh, rest))
        near = FAR * min((nanoseconds for nanoseconds, *_ in ranked), default=0)
        for nanoseconds, weigh, rest in others:
            if nanoseconds <= near:
                ranked += map(weigh, rest)
        ranked.sort(key=_ORDER)
        nearest = sorted(self._refined(ranked[:MOST_REFINED], problem, device), key=_ORDER)
        return [candidate for *_, candidate in (*nearest, *ranked[MOST_REFINED:])]

    def _possible(self, record: KernelRecord, problem: P, device: DeviceProperties) -> Sequence[Tactic]:
        """The candidates of a kernel for which the device has room."""
        candidates = self.candidates(record, problem)
        if all(device.clusters):  # nothing is known to be too large
            return candidates
        return [tactic for tactic in candidates if not self.misfit_device(tactic, record, device)]

    def _weigher(
        self,
        record: KernelRecord,
        problem: P,
        device: DeviceProperties,
    ) -> _Weigh | None:
        """Of one kernel; None where there is no model of it."""
        estimate_of = self.estimator(record, problem, device)
        if estimate_of is None:
            return None
        extra = self.does_extra_work(record, problem)

        def weigh(tactic: Tactic) -> _Weighed:
            estimate = estimate_of(tactic)
            return round(estimate.seconds * 1e9), extra, tactic, Candidate(tactic, record, estimate)

        return weigh

    def _refined(
        self, nearest: Sequence[_Weighed], problem: P, device: DeviceProperties
    ) -> Iterator[_Weighed]:
        """The same tactics, estimated by `refine` where that knows them."""
        found = self.refine([(one.record, one.tactic) for *_, one in nearest], problem, device)
        for one, estimate in zip(nearest, found, strict=True):
            if estimate is None:
                yield one
                continue
            _, extra, tactic, candidate = one
            yield round(estimate.seconds * 1e9), extra, tactic, candidate._replace(estimate=estimate)

    def model(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The best model of a kernel, `refine` before `estimator`; None where there is none."""
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
        """The kernel of a tactic that is demanded for a problem; `records` are those that run on the device.

        Raises NoKernelError where no table lists it, ArgumentError where it does not compute the problem.
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
        """Checks a tactic that a caller demands for an empty problem, which needs no kernel: by the problem's
        kind, whatever its extents and layouts.

        Raises NoKernelError where no table lists the kernel, ArgumentError where it is of another kind.
        """
        record = self.demanded(registry, tactic)
        laid = {name: record.config[name] for name in self.layouts if name in record.config}
        kind = replace(cast(Any, problem), **laid).kind  # a problem is a dataclass
        reason = self.misfit_kind(record, kind) or self.misfit_arguments(tactic, record)
        if reason is not None:
            raise _misfit(tactic, problem, reason)

    def demanded(self, registry: Registry, tactic: Tactic) -> KernelRecord:
        """The kernel of a tactic. Raises NoKernelError where no table lists it, ArgumentError where it is
        another family's."""
        table = registry.table_of(tactic.kernel)
        if table.family != self.name:
            raise ArgumentError(
                "tactic", f"{tactic.kernel} is a {table.family} kernel; one of {self.name} is wanted"
            )
        return table[tactic.kernel]


def _misfit(tactic: Tactic, problem: Problem, reason: str) -> ArgumentError:
    return ArgumentError("tactic", f"{tactic.kernel} does not compute {problem}: {reason}")
