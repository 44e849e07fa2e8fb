"""Which entries of a tuned file stand with the kernels that there are now, and which they have not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.architectures import routing
from tilewright.architectures.routing import Capability
from tilewright.compile.cutlass import satisfies
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError, TilewrightError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_files import Entry, Section, TunedFile

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

_NAMED = 3  # of dropped entries, in a message


class Dropped(NamedTuple):
    """An entry that does not stand."""

    tactic: str
    reason: str


class Unseen(NamedTuple):
    """An entry that stands, and the kernels of its kind that were not there when it was tuned."""

    entry: Entry
    kernels: tuple[str, ...]  # in the order of tables


class Review(NamedTuple):
    """What becomes of a file's entries with the kernels that there are now."""

    standing: list[Entry]
    unseen: list[Unseen]  # of those that stand
    dropped: list[Dropped]


def judged(
    section: Section, row: Mapping[str, Any], family: Family[Any], registry: Registry, capability: Capability
) -> Entry | str:
    """The entry of a row on GPUs of a capability, or why it is none: its kernel is no more, does not compute
    the problem, does not run there."""
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
    named = "; ".join(f"{one.tactic} ({one.reason})" for one in dropped[:_NAMED])
    more = f" and {len(dropped) - _NAMED} more" if len(dropped) > _NAMED else ""
    return f"{len(dropped)} {'entry' if len(dropped) == 1 else 'entries'}: {named}{more}"


def review(file: TunedFile, family: Family[Any], registry: Registry) -> Review:
    """All entries of a file, judged."""
    found = Review([], [], [])
    capability = file.header.capability_numbers
    for section in file.sections:
        standing = []
        for row in section.rows:
            entry = judged(section, row, family, registry, capability)
            if isinstance(entry, str):
                found.dropped.append(Dropped(row["tactic"], entry))
            else:
                standing.append(entry)
        found.standing.extend(standing)
        if standing:
            kernels = tuple(_unseen(file, section, standing[0].problem.kind, family, registry))
            found.unseen.extend(Unseen(entry, kernels) for entry in standing if kernels)
    return found


def _unseen(
    file: TunedFile, section: Section, kind: Any, family: Family[Any], registry: Registry
) -> Iterator[str]:
    """Those that need newer CUTLASS headers than the file's times are of could not be tuned beside them."""
    seen = set(section.seen)
    runnable = registry.runnable(family.name, file.header.capability_numbers)
    for record in family.of_kind(registry, runnable, kind):
        if record.name not in seen and (not record.cutlass or satisfies(file.header.cutlass, record.cutlass)):
            yield record.name
