"""Checks the entries of tuned files against the kernels of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.architectures import routing
from tilewright.architectures.table import Capability
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError, TilewrightError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_files import Entry, Section

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

_NAMED = 3  # dropped entries that a message names


class Dropped(NamedTuple):
    """An entry that no longer holds."""

    tactic: str
    reason: str


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
