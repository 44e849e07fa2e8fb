"""Brings tuned files together: those of several machines of one kind, or of parts of a list of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.errors import ForeignTunedFileError, TilewrightError, TunedFileError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning import files
from tilewright.tuning.files import Entry

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family
    from tilewright.registry import Registry
    from tilewright.tuning.header import Header


class _Source(NamedTuple):
    """A file that was read, and what of it goes where."""

    family: Family[Any]
    header: Header
    target: Path
    entries: list[Entry]
    messages: list[str]


def merge(
    sources: Sequence[Path], only: Family[Any] | None, registry: Registry, target: Callable[[str, str], Path]
) -> Iterator[tuple[Path, int, list[str]]]:
    """Adds each file's entries to the tuned file that `target` names for its GPU and family; of two for one
    problem the later counts. Answers that file, how many entries it got, and what was passed over and why.

    All sources and targets are looked at before the first is written. Raises FileNotFoundError and
    TunedFileError for a source, also for one of another family than `only`, and what `files.update` raises: a
    target of another machine is left as it is.
    """
    read = [_read(source, only, registry, target) for source in sources]
    _check_targets(sources, read)
    for one in read:
        files.update(one.target, one.header, one.family, registry, one.entries)
        yield one.target, len(one.entries), one.messages


def _read(
    source: Path, only: Family[Any] | None, registry: Registry, target: Callable[[str, str], Path]
) -> _Source:
    file = files.read(source)
    family = files.family_of(source, file)
    if only is not None and family.name != only.name:
        raise TunedFileError(f"{source} is of {family.name}, not of {only.name}")
    messages: list[str] = []
    entries = list(_entries(source, file, family, registry, messages))
    return _Source(family, file.header, target(file.header.gpu, family.name), entries, messages)


def _check_targets(sources: Sequence[Path], read: Sequence[_Source]) -> None:
    """Raises what an update of a target would, as the sources before have left it."""
    written: dict[Path, tuple[Path, Header]] = {}
    for path, one in zip(sources, read, strict=True):
        if one.target not in written:
            files.sections_to_update(one.target, one.header, one.family)
        else:
            before, header = written[one.target]
            reason = one.header.mismatch(header, shipped=False)
            if reason is not None:
                raise ForeignTunedFileError(f"{before} and {path} are of different machines: {reason}")
        written[one.target] = (path, one.header)


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
                        f"{source}: passed over {len(section.rows)} entries: "
                        f"{files.what_changed(section.candidates, candidates, family)}"
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
