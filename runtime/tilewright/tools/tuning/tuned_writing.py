"""Writes tuned files (`selection/tuned_files.py`): adds entries, and sets damaged files aside."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base import writing
from tilewright.declarations import catalog
from tilewright.errors import ForeignTunedFileError, StoreError, TunedFileError
from tilewright.selection import families
from tilewright.selection.tuned_files import (
    Entry,
    Key,
    Section,
    TunedFile,
    extents_of,
    frozen,
    is_row,
    kind_of,
    read,
    whole_kind,
)
from tilewright.selection.tuned_header import FORMAT, Header

if TYPE_CHECKING:
    from tilewright.selection.family import Family


def family_of(path: Path, file: TunedFile) -> Family[Any]:
    """The family of a tuned file. Raises ForeignTunedFileError if no such family exists."""
    if file.family not in (names := catalog.names()):
        raise ForeignTunedFileError(f"{path} is of {file.family}; the families are {', '.join(names)}")
    return families.family_of(file.family)


def update(path: Path, header: Header, family: Family[Any], entries: Iterable[Entry]) -> None:
    """Adds entries, which replace older ones of the same problems. All are on disk when it returns.

    It holds a lock, so that no process loses another's entries. The other entries of the file stay.

    Raises TunedFileError if the existing file is damaged, ForeignTunedFileError if it belongs to another
    machine than `header` (neither file is changed), StoreError if it cannot be written.
    """
    with _locked(path):
        sections = sections_to_update(path, header, family)
        for entry in entries:
            kind, seen = kind_of(family, entry.problem), tuple(sorted(entry.seen))
            row = {
                **dict(zip(family.extents, extents_of(family, entry.problem), strict=True)),
                "tactic": str(entry.tactic),
                "seconds": float(f"{entry.seconds:.4g}"),  # more digits are noise
            }
            sections.append(Section(kind, seen, [row]))
        _write(path, _text(TunedFile(header, family.name, _regrouped(sections, family))))


def _regrouped(sections: Iterable[Section], family: Family[Any]) -> list[Section]:
    """The sections with one section for a kind and set of kernels, and with the last row for each problem."""
    last: dict[tuple[Key, Key], tuple[Section, dict[str, Any]]] = {}
    for section in sections:
        kind = frozen(section.kind)
        for row in section.rows:
            last[kind, _neighbours_together(row, family)] = (section, row)
    regrouped: dict[tuple[Key, tuple[str, ...]], Section] = {}
    for kind, place in sorted(last, key=lambda key: key[1]):
        section, row = last[kind, place]
        regrouped.setdefault((kind, section.seen), Section(section.kind, section.seen)).rows.append(row)
    return list(regrouped.values())


def set_aside(path: Path) -> Path:
    """Renames a damaged file to the first free NAME.broken-N, and returns the new path."""
    with _locked(path):
        number = 1
        while (target := path.with_name(f"{path.name}.broken-{number}")).exists():
            number += 1
        try:
            path.rename(target)
        except OSError as error:
            raise _failure(path, error) from None
        return target


def sections_to_update(path: Path, header: Header, family: Family[Any]) -> list[Section]:
    """The sections of the existing file; none if no file exists. Raises what `update` raises for the existing
    file."""
    try:
        file = read(path)
    except FileNotFoundError:
        return []
    reason = header.conflict(file.header)
    if file.family != family.name:
        reason = f"it is of {file.family}"
    if reason is not None:
        raise ForeignTunedFileError(
            f"{path} is of another machine: {reason}",
            hint="Move it away, or name another folder in TILEWRIGHT_TUNED.",
        )
    for row in (row for section in file.sections for row in section.rows):
        if not is_row(row, family):
            raise TunedFileError(f"{path} is damaged: {json.dumps(row)} is no entry")
    for section in file.sections:
        section.kind = whole_kind(family, section.kind) or section.kind
    return file.sections


def _text(file: TunedFile) -> str:
    head = {"format": FORMAT, "family": file.family, **dataclasses.asdict(file.header)}
    parts = []
    for section in sorted(file.sections, key=lambda section: (json.dumps(section.kind), section.seen)):
        opening = json.dumps({"kind": section.kind})[:-1]
        seen = ",\n".join(f"  {json.dumps(name)}" for name in section.seen)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in section.rows)
        parts.append(f'{opening}, "seen": [\n{seen}], "tuned": [\n{rows}\n]}}')
    return f'{json.dumps(head)[:-1]}, "kinds": [\n' + ",\n".join(parts) + "\n]}\n"


def _neighbours_together(row: Mapping[str, Any], family: Family[Any]) -> Key:
    """The key that sorts rows which differ in the neighbours' extent alone next to each other."""
    extents = (row[name] for name in family.extents if name != family.neighbour)
    return (*extents, row[family.neighbour])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import filelock  # noqa: PLC0415 (60 ms, and reading needs no lock)

    lock = path.with_name(f"{path.name}.lock")
    for place in (path, lock):  # FOLDER/nvidia_h200/FAMILY.json: neither of these folders may be a link
        writing.check(place, Path(os.path.abspath(path.parent.parent)).parent)  # noqa: PTH100
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock):
            yield
    except OSError as error:
        raise _failure(path, error) from None


def _write(path: Path, text: str) -> None:
    """Replaces the file. The caller holds the lock, so older drafts are left over from killed processes."""
    prefix = f".{path.name}."
    for debris in [file for file in path.parent.iterdir() if file.name.startswith(prefix)]:
        with suppress(OSError):
            debris.unlink()
    writing.write(path, text, sync=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _failure(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="Name a folder that can be written, with room, in TILEWRIGHT_TUNED.",
    )
