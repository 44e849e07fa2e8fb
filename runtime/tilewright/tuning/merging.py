"""Brings tuned files together: those of several machines of one kind, or of parts of a list of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError, TunedFileError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning import files
from tilewright.tuning.files import Entry

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family
    from tilewright.registry import Registry
    from tilewright.tuning.header import Header


def merge(
    sources: Sequence[Path], family: Family[Any], registry: Registry, target: Callable[[str], Path]
) -> Iterator[tuple[Path, int, list[str]]]:
    """Adds each file's entries to the tuned file that `target` names for its GPU; of two for one problem the
    later counts. Answers that file, how many entries it got, and what was passed over and why.

    Raises FileNotFoundError and TunedFileError for a source, and what `files.update` raises: a target of
    another machine is left as it is.
    """
    for source in sources:
        file = files.read(source)
        if file.family != family.name:
            raise TunedFileError(f"{source} is of {file.family}, not of {family.name}")
        messages: list[str] = []
        entries = list(_entries(source, file, family, registry, messages))
        path = target(file.header.gpu)
        files.update(path, file.header, family, registry, entries)
        yield path, len(entries), messages


def _entries(
    source: Path, file: files.TunedFile, family: Family[Any], registry: Registry, messages: list[str]
) -> Iterator[Entry]:
    header: Header = file.header
    runnable = registry.runnable(family.name, header.capability_numbers)
    for section in file.sections:
        for row in section.rows:
            try:
                extents = {name: row[name] for name in family.extents}
                problem = family.problem(**section.kind, **extents)
                candidates = files.candidates_of(family.of_kind(registry, runnable, problem.kind))
                if candidates != section.candidates:
                    messages.append(
                        f"{source}: passed over {len(section.rows)} entries: there were "
                        f"{section.candidates}; here there are {candidates}"
                    )
                    break
                tactic = Tactic.parse(row["tactic"])
                reason = family.misfit_tactic(tactic, family.demanded(registry, tactic), problem)
            except (TilewrightError, TypeError, KeyError) as error:
                reason = str(error)
            if reason is None:
                yield Entry(problem, tactic, row["seconds"])
            else:
                messages.append(f"{source}: passed over {row['tactic']}: {reason}")
