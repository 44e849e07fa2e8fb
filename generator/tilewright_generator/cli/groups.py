"""The two groups of `tilewright bench compare`: from filters to kernels, and from kernels to built ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.tools.filters import taken, why_none
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.declarations.table import KernelRecord
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family
    from tilewright.tools.benchmarking.groups import Group, Standing


def read(
    registry: Registry, families: Sequence[str], family: str | None, first: str, second: str
) -> tuple[str, tuple[Group, Group]]:
    """The family and the groups that two filters name. Raises UsageError if a filter matches no kernel."""
    from tilewright.tools.benchmarking.groups import REST, Group, labels  # noqa: PLC0415 (see `cli/bench.py`)

    terms = (tuple(first.split()), tuple(second.split()))
    if not all(terms):
        raise UsageError("A and B are filters of at least one term; '*' takes every kernel")
    if terms[0] == (REST,):
        raise UsageError("`rest` is what A leaves out, so only B can be it")
    kernels = {name: registry.kernels(name) for name in ([family] if family else families)}
    name = _only_family(kernels, terms[0])
    records = kernels[name]
    a = _taken(terms[0], records)
    if terms[1] == (REST,):
        names = {record.name for record in a}
        b = [record for record in records if record.name not in names]
        if not b:
            raise UsageError(f"A takes all {len(records)} kernels of {name}, and leaves none for `rest`")
    else:
        b = _taken(terms[1], records)
    label_a, label_b = labels(*terms)
    return name, (Group(label_a, terms[0], tuple(a)), Group(label_b, terms[1], tuple(b)))


def of_family(family: str, registry: Registry) -> Group:
    """The group of all kernels of a family."""
    from tilewright.tools.benchmarking.groups import Group  # noqa: PLC0415

    return Group(family, (family,), tuple(registry.kernels(family)))


def labelled(pair: tuple[Group, Group], labels: tuple[str, str] | None) -> tuple[Group, Group]:
    """The groups, under the labels that a person wants."""
    from tilewright.tools.benchmarking.groups import check_labels  # noqa: PLC0415

    if labels is None:
        return pair
    a, b = check_labels(*labels)
    return replace(pair[0], label=a), replace(pair[1], label=b)


def ready(
    standings: Sequence[Standing],
    family: Family[Any],
    problem: Any,
    *,
    device: DeviceProperties,
    registry: Registry,
    build: bool,
    built_only: bool,
) -> list[Standing]:
    """The groups as they are measured. Kernels that are not built are built if `build` allows it.

    Raises CannotCompareError if nothing of a group can be measured on this machine, or (without `built_only`)
    less than its filter names.
    """
    from tilewright.tools.benchmarking import groups  # noqa: PLC0415

    for standing in standings:
        groups.check(standing, family, problem, device)
    missing = [record for standing in standings for record in standing.missing]
    if missing and build:
        groups.build(missing, registry)
        standings = [
            groups.stand(standing.group, family, problem, device, registry) for standing in standings
        ]
    problem_with_builds = groups.not_built(standings, registry)
    if problem_with_builds is None:
        return list(standings)
    if not built_only or not all(standing.built for standing in standings):
        raise problem_with_builds
    note(f"left out, as --built-only says: {problem_with_builds.message}")
    return list(standings)


def as_json(standing: Standing) -> dict[str, Any]:
    """A group in a record: what it is, and which of its kernels were measured."""
    return {
        "label": standing.group.label,
        "filter": " ".join(standing.group.terms),
        "kernels": len(standing.group.records),
        "run_here": len(standing.runnable),
        "of_kind": len(standing.of_kind),
        "measured": [record.name for record in standing.built],
        "not_built": [record.name for record in standing.missing],
    }


def _only_family(by_family: dict[str, list[KernelRecord]], terms: Sequence[str]) -> str:
    """The family whose kernels the terms take."""
    everything = [record for records in by_family.values() for record in records]
    names = {record.name for record in taken(terms, everything)}
    met = [name for name, records in by_family.items() if any(record.name in names for record in records)]
    if len(met) > 1:
        raise UsageError(f"{' '.join(terms)} takes kernels of {', '.join(met)}: --family says which")
    if not met:
        raise UsageError(_nothing(terms, everything))
    return met[0]


def _taken(terms: Sequence[str], records: Sequence[KernelRecord]) -> list[KernelRecord]:
    kernels = taken(terms, records)
    if not kernels:
        raise UsageError(_nothing(terms, records))
    return kernels


def _nothing(terms: Sequence[str], records: Sequence[KernelRecord]) -> str:
    return f"no kernel meets {' '.join(terms)}{why_none(terms, records)}"
