"""Brings tuned files together: those of several machines of one kind, or of parts of a list of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.errors import ForeignTunedFileError, TunedFileError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_entries import counted
from tilewright.selection.tuned_files import Entry
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.review import review

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family
    from tilewright.selection.tuned_header import Header


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
    TunedFileError for a source, also for one of another family than `only`, and what `tuned_writing.update`
    raises: a target of another machine is left as it is.
    """
    read = [_read(source, only, registry, target) for source in sources]
    _check_targets(sources, read)
    for source in read:
        tuned_writing.update(source.target, source.header, source.family, source.entries)
        yield source.target, len(source.entries), source.messages


def _read(
    source: Path, only: Family[Any] | None, registry: Registry, target: Callable[[str, str], Path]
) -> _Source:
    file = tuned_files.read(source)
    family = tuned_writing.family_of(source, file)
    if only is not None and family.name != only.name:
        raise TunedFileError(f"{source} is of {family.name}, not of {only.name}")
    reviewed = review(file, family, registry)
    messages = [f"{source}: passed over {counted(reviewed.dropped)}"] if reviewed.dropped else []
    return _Source(family, file.header, target(file.header.gpu, family.name), reviewed.standing, messages)


def _check_targets(sources: Sequence[Path], read: Sequence[_Source]) -> None:
    """Raises what an update of a target would, as the sources before have left it."""
    written: dict[Path, tuple[Path, Header]] = {}
    for path, source in zip(sources, read, strict=True):
        if source.target not in written:
            tuned_writing.sections_to_update(source.target, source.header, source.family)
        else:
            before, header = written[source.target]
            reason = source.header.conflict(header)
            if reason is not None:
                raise ForeignTunedFileError(f"{before} and {path} are of different machines: {reason}")
        written[source.target] = (path, source.header)
