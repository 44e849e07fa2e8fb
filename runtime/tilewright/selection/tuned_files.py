"""Tuned files: the results of tuning, one JSON file for a GPU and family, `<folder>/<gpu>/<family>.json`.

    {"format": 2, "family": ..., "gpu": ..., "capability": ..., "sm_count": ..., "driver": ...,
     "cuda": ..., "cutlass": ...,
     "kinds": [{"kind": {...}, "seen": [
       "NAME",
       "OTHER"], "tuned": [
       {"m": 32, "n": 5120, "k": 25600, "batch": 1, "tactic": "NAME@splits=4", "seconds": 1.23e-05},

A line holds one entry or one kernel, by name. A section holds the entries of one kind of problem that have
seen the same kernels, which are the kernels that tuning could choose from. An entry holds as long as its own
kernel exists. Later tuning compares it with the kernels that it has not seen, and then moves it to the
section that has seen all of them.

A file is replaced whole, under a lock: a reader finds the old file or the new one, even if a writer is
killed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import reading, writing
from tilewright.base.mismatch import Mismatch
from tilewright.base.schema import Anything, Array, Boolean, Integer, Map, Number, Object, String, Union
from tilewright.declarations import catalog
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError, StoreError, TunedFileError, UnreadableFileError
from tilewright.selection import families
from tilewright.selection.tuned_header import FIELDS, FORMAT, Header

if TYPE_CHECKING:
    from tilewright.selection.family import Family

Key = tuple[Any, ...]  # values in the order of fields, hashable

_EXTENT = Integer(0, 2**31 - 1)  # 0: a hint that the caller does not give
SCHEMA = Object(
    {
        "format": Integer(),
        "family": String("[a-z][a-z0-9_]*", "a family's name"),
        **FIELDS,
        "kinds": Array(
            Object(
                {
                    # Any values: a section whose kind is not the family's is skipped later (`whole_kind`).
                    "kind": Map(Union((String(), Boolean(), Integer()))),
                    "seen": Array(String()),
                    "tuned": Array(
                        Object({"tactic": String(), "seconds": Number(positive=True)}, others=_EXTENT)
                    ),
                }
            )
        ),
    }
)
_ANY_FORMAT = Object({"format": Integer()}, others=Anything())


class Entry(NamedTuple):
    """A problem's fastest tactic, and the seconds of one launch."""

    problem: Any
    tactic: Tactic
    seconds: float
    seen: frozenset[str] = frozenset()
    """The kernels that tuning could choose from, by name."""


@dataclass(slots=True)
class Section:
    """The entries of a file for one kind of problem, chosen from one set of kernels."""

    kind: Mapping[str, Any]  # the problem's `kind_fields`
    seen: tuple[str, ...]  # names of the kernels, sorted
    rows: list[dict[str, Any]] = field(default_factory=list)  # extents by name, "tactic" (text), "seconds"


@dataclass(slots=True)
class TunedFile:
    """A tuned file as it was read. Neither its header nor its tactics are checked."""

    header: Header
    family: str
    sections: list[Section]


def kind_fields(family: Family[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that define a kind of problem in a file: all except extents and alignment."""
    left_out = (*family.extents, *family.placement)
    return [field for field in dataclasses.fields(family.problem) if field.name not in left_out]


def kind_of(family: Family[Any], problem: Any) -> dict[str, Any]:
    """The problem's values of `kind_fields`."""
    return {field.name: getattr(problem, field.name) for field in kind_fields(family)}


def extents_of(family: Family[Any], problem: Any) -> Key:
    return tuple(getattr(problem, name) for name in family.extents)


def whole_kind(family: Family[Any], kind: Mapping[str, Any]) -> dict[str, Any] | None:
    """A section's kind in the order of `kind_fields`. Fields that are newer than the section get their
    defaults. None if the section has a field or a value that no problem of the family has."""
    defaults = {field.name: field.default for field in kind_fields(family)}
    try:
        catalog.kind_of(family.name).check(kind)
    except Mismatch:
        return None
    whole = {name: kind.get(name, default) for name, default in defaults.items()}
    return whole if dataclasses.MISSING not in whole.values() else None


def is_row(row: Mapping[str, Any], family: Family[Any]) -> bool:
    """Whether an entry of a file has exactly the extents of the family's problems, all with allowed
    values."""
    complete = set(row) == {*family.extents, "tactic", "seconds"}
    return complete and all(extent.allows(row[extent.name]) for extent in family.words.extents)


def frozen(kind: Mapping[str, Any]) -> Key:
    """A kind as a key of a dictionary."""
    return tuple(kind.items())


def read(path: Path) -> TunedFile:
    """Reads a tuned file.

    Raises FileNotFoundError if the file does not exist, TunedFileError if it is damaged,
    ForeignTunedFileError if it has another format.
    """
    try:
        data = reading.load_json(path, _ANY_FORMAT)
        if data["format"] != FORMAT:
            raise ForeignTunedFileError(f"{path}: format {data['format']}, this tilewright reads {FORMAT}")
        reading.check(path, data, SCHEMA)
    except UnreadableFileError as error:
        raise TunedFileError(f"{path} is damaged: {error.reason}") from None
    sections = [
        Section(section["kind"], tuple(sorted(set(section["seen"]))), section["tuned"])
        for section in data["kinds"]
    ]
    return TunedFile(Header.parse(data), data["family"], sections)


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
