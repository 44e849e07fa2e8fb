"""Tactics that won for problems like the one that is tuned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log2
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.tuned_files import Entry, extents_of

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family


def near(
    entries: Sequence[Entry],
    problem: Any,
    family: Family[Any],
    registry: Registry,
    device: DeviceProperties,
) -> list[Tactic]:
    """The tactics of tuned entries that won for similar problems and are legal for this one, the nearest
    problem first.

    A similar problem has half to twice the `neighbour` extent, and equal extents otherwise. If it is of
    another kind (FP16 for BF16), its tactic is taken with the kernel that differs in the kind alone.
    """
    if not entries:
        return []
    place = family.extents.index(family.neighbour)
    key = extents_of(family, problem)
    records = family.of_kind(registry, registry.route(family.name, device), problem.kind)
    tactics: list[tuple[float, Tactic]] = []
    for entry in entries:
        extents = extents_of(family, entry.problem)
        apart = abs(log2(max(1, extents[place]) / max(1, key[place])))
        rest = (*extents[:place], *extents[place + 1 :])
        if apart <= 1 and rest == (*key[:place], *key[place + 1 :]):
            own = registry.record(entry.tactic.kernel)
            alike = (replace(entry.tactic, kernel=name) for name in _alike(own, records, family))
            tactics += [(apart, tactic) for tactic in alike if _legal(tactic, problem, family, registry)]
    return list(dict.fromkeys(tactic for _, tactic in sorted(tactics, key=itemgetter(0))))


def _alike(own: KernelRecord, records: Iterable[KernelRecord], family: Family[Any]) -> Iterator[str]:
    """The kernels that equal a kernel in all fields that the kind does not decide."""

    def rest(record: KernelRecord) -> dict[str, Any]:
        return {name: value for name, value in record.config.items() if name not in family.decisive}

    for record in records:
        if record.name == own.name or rest(record) == rest(own):
            yield record.name


def _legal(tactic: Tactic, problem: Any, family: Family[Any], registry: Registry) -> bool:
    return family.misfit_tactic(tactic, registry.record(tactic.kernel), problem) is None
