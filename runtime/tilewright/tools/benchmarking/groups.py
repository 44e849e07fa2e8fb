"""Two groups of a family's kernels, and which of these run on a GPU, compute a problem and are built."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.architectures import routing
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.errors import ArgumentError
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of
from tilewright.selection.family import Family
from tilewright.tools.benchmarking.errors import CannotCompareError

REST = "rest"  # in B's place: all kernels of the family that A leaves out
_LONGEST_LABEL = 24
_NAMED = 6  # kernels that a command to build names; more of them it describes


@dataclass(frozen=True)
class Group:
    """Kernels under a name."""

    label: str
    terms: tuple[
        str, ...
    ]  # of the filter that selects them; (REST,) for the kernels that the other group leaves
    records: tuple[KernelRecord, ...]

    def __str__(self) -> str:
        named = " ".join(self.terms)
        return self.label if named == self.label else f"{self.label} ({named})"


@dataclass(frozen=True)
class Standing:
    """A group on a GPU, for problems of one kind. Each list is a part of the previous one."""

    group: Group
    runnable: list[KernelRecord]
    of_kind: list[KernelRecord]
    built: list[KernelRecord]

    @property
    def missing(self) -> list[KernelRecord]:
        """The kernels that would be measured if they were built."""
        names = {record.name for record in self.built}
        return [record for record in self.of_kind if record.name not in names]


def with_named(family: Family[Any]) -> Family[Any]:
    """The family, with kernels that otherwise run only if a call names them: the caller of a comparison names
    all kernels. Its answers are not cached (`of_kind`)."""
    every = copy.copy(family)
    every.only_if_named = ()
    return every


def stand(
    group: Group, family: Family[Any], problem: Any, device: DeviceProperties | None, registry: Registry
) -> Standing:
    """The kernels of a group for problems of the kind of `problem`. `device` None stands for any GPU."""
    runnable = [
        record
        for record in group.records
        if device is None or routing.runs_on(record.arch, device.capability)
    ]
    of_kind = [record for record in runnable if family.misfit_kind(record, problem.kind) is None]
    return Standing(group, runnable, of_kind, [record for record in of_kind if registry.is_built(record)])


def check(standing: Standing, family: Family[Any], problem: Any, device: DeviceProperties) -> None:
    """Raises CannotCompareError if no kernel of the group can be measured, built or not."""
    group = standing.group
    if not standing.runnable:
        targets = ", ".join(sorted({record.arch for record in group.records}))
        raise CannotCompareError(
            f"none of the {len(group.records)} kernels of {group} runs on {device.name}, "
            f"{routing.describe(device.capability)}: they are compiled for {targets}"
        )
    if not standing.of_kind:
        raise CannotCompareError(
            f"none of the {len(standing.runnable)} kernels of {group} that run on {device.name} computes "
            f"{problem.types_text}:\n{family.explain(standing.runnable, problem)}",
            hint=f"The options {', '.join(family.words.options)} choose the problem.",
        )


def labels(first: Sequence[str], second: Sequence[str]) -> tuple[str, str]:
    """Names of two groups, from their filters; `a` and `b` if the filters give no short and different
    names."""
    names = ["_".join(map(_label, terms)) for terms in (first, second)]
    a, b = (
        label if label and len(label) <= _LONGEST_LABEL else letter
        for label, letter in zip(names, "ab", strict=True)
    )
    return (a, b) if a != b else ("a", "b")


def _label(term: str) -> str:
    """`arch=sm103`: sm103. `k_tile=768`: k_tile768. `swap_ab=true`: swap_ab. `~arch=sm103`: not_sm103."""
    field, equals, value = term.removeprefix("~").partition("=")
    if value == "true":
        word = field
    elif value == "false":
        word = f"no_{field}"
    else:
        word = field + value if equals and not value[:1].isalpha() else value if equals else field
    words = re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")
    return f"not_{words}" if term.startswith("~") and words else words


def check_labels(a: str, b: str) -> tuple[str, str]:
    """Labels that a person gave, which go into names of columns. Raises ArgumentError."""
    for label in (a, b):
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", label):
            raise ArgumentError("--labels", f"expected letters, digits, '_', '-' and '.', got {label!r}")
    if a == b:
        raise ArgumentError("--labels", f"both are {a!r}")
    return a, b


def not_built(standings: Iterable[Standing], registry: Registry) -> CannotCompareError | None:
    """A message about kernels that would be measured but are not built; None if all are built."""
    standings = list(standings)
    missing = {record.name: record for standing in standings for record in standing.missing}
    if not missing:
        return None
    counts = ", ".join(
        f"{len(standing.missing)} of {len(standing.of_kind)} kernels of {standing.group}"
        for standing in standings
        if standing.missing
    )
    rest = ", or --built-only to go without them" if all(standing.built for standing in standings) else ""
    return CannotCompareError(
        f"not built: {counts}",
        hint=f"Build them with: {build_command(list(missing.values()), registry)}\n"
        f"or give --build to build them now{rest}.",
    )


def build_command(records: Sequence[KernelRecord], registry: Registry) -> str:
    """A command that builds these kernels: by name or, if there are many, by their common fields."""
    modules = list(dict.fromkeys(registry.table_of(record.name).module for record in records))
    if len(records) <= _NAMED:
        terms = [",".join(record.name for record in records)]
    else:
        terms = [
            f"{field}={','.join(dict.fromkeys(str(record.config[field]) for record in records))}"
            for field in family_of(registry.table_of(records[0].name).family).decisive
        ]
        terms.append(f"arch={','.join(dict.fromkeys(record.arch for record in records))}")
    return " ".join(["tilewright build", *modules, *(f"--filter {shlex.quote(term)}" for term in terms)])


def build(records: Iterable[KernelRecord], registry: Registry) -> None:
    """Builds kernels, with progress on stderr. Raises BuildError, ToolchainError, NotBuiltError."""
    from tilewright.compile import building, progress  # noqa: PLC0415 (only where something is built)

    names = {record.name for record in records}
    tables = {registry.table_of(name).module: registry.table_of(name) for name in names}
    report = building.build(
        tables.values(), select=lambda record: record.name in names, progress=progress.progress_for()
    )
    report.raise_for_failures()
    registry.refresh()
