"""Checks the entries of tuned files against the kernels of today, and finds the kernels they have not
seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.architectures import routing
from tilewright.architectures.table import Capability
from tilewright.compile.nvcc.cutlass import satisfies
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError, TilewrightError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_files import Entry, Section, TunedFile

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

_NAMED = 3  # dropped entries that a message names


class Dropped(NamedTuple):
    """An entry that no longer holds."""

    tactic: str
    reason: str


class Unseen(NamedTuple):
    """An entry that holds, and the kernels of its kind that did not exist when it was tuned."""

    entry: Entry
    kernels: tuple[str, ...]  # in the order of tables


class Review(NamedTuple):
    """The entries of a file, checked against the kernels of today."""

    standing: list[Entry]
    unseen: list[Unseen]  # entries among `standing` with kernels that they have not seen
    dropped: list[Dropped]


def judged(
    section: Section, row: Mapping[str, Any], family: Family[Any], registry: Registry, capability: Capability
) -> Entry | str:
    """The entry of a row on GPUs of a capability, or why there is none: its kernel no longer exists, does not
    compute the problem, or does not run on these GPUs."""
    if not tuned_files.is_row(row, family):
        return f"its problem is not {', '.join(family.extents)}"
    kind = tuned_files.whole_kind(family, section.kind)
    if kind is None:
        return "its problem is none of the family's"
    problem = family.problem(**kind, **{name: row[name] for name in family.extents})
    try:
        tactic = Tactic.parse(row["tactic"])
        record = family.demanded(registry, tactic)
    except NoKernelError:
        return "no such kernel"
    except TilewrightError as error:
        return error.message
    if not routing.runs_on(record.arch, capability):
        return f"it does not run on {routing.describe(capability)}"
    reason = family.misfit_tactic(tactic, record, problem)
    return reason or Entry(problem, tactic, row["seconds"], frozenset(section.seen))


def counted(dropped: Sequence[Dropped]) -> str:
    """`5 entries: NAME (no such kernel); ... and 2 more`."""
    named = "; ".join(f"{entry.tactic} ({entry.reason})" for entry in dropped[:_NAMED])
    more = f" and {len(dropped) - _NAMED} more" if len(dropped) > _NAMED else ""
    return f"{len(dropped)} {'entry' if len(dropped) == 1 else 'entries'}: {named}{more}"


def review(file: TunedFile, family: Family[Any], registry: Registry) -> Review:
    """Checks all entries of a file."""
    result = Review([], [], [])
    capability = file.header.capability_numbers
    for section in file.sections:
        standing = []
        for row in section.rows:
            entry = judged(section, row, family, registry, capability)
            if isinstance(entry, str):
                result.dropped.append(Dropped(row["tactic"], entry))
            else:
                standing.append(entry)
        result.standing.extend(standing)
        if standing:
            kernels = tuple(_unseen(file, section, standing[0].problem.kind, family, registry))
            result.unseen.extend(Unseen(entry, kernels) for entry in standing if kernels)
    return result


def _unseen(
    file: TunedFile, section: Section, kind: Any, family: Family[Any], registry: Registry
) -> Iterator[str]:
    """The kernels of a kind that a section has not seen. Kernels that need newer CUTLASS headers than those
    of the file's times are left out: tuning could not try them."""
    seen = set(section.seen)
    runnable = registry.runnable(family.name, file.header.capability_numbers)
    for record in family.of_kind(registry, runnable, kind):
        if record.name not in seen and (not record.cutlass or satisfies(file.header.cutlass, record.cutlass)):
            yield record.name
