"""Reviews a tuned file: which entries hold, which do not, and which kernels an entry has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.compile.nvcc.cutlass import satisfies
from tilewright.selection.tuned_entries import Dropped, judged
from tilewright.selection.tuned_files import Entry, Section, TunedFile

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family


class Unseen(NamedTuple):
    """An entry that holds, and the kernels of its kind that did not exist when it was tuned."""

    entry: Entry
    kernels: tuple[str, ...]  # in the order of tables


class Review(NamedTuple):
    """The entries of a file, checked against the kernels of today."""

    standing: list[Entry]
    unseen: list[Unseen]  # entries among `standing` with kernels that they have not seen
    dropped: list[Dropped]


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
