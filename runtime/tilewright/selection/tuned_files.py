"""Tuned files: what tuning found, one JSON file a GPU and family, `<folder>/<gpu>/<family>.json`.

    {"format": 2, "family": ..., "gpu": ..., "capability": ..., "sm_count": ..., "driver": ...,
     "cuda": ..., "cutlass": ...,
     "kinds": [{"kind": {...}, "seen": [
       "NAME",
       "OTHER"], "tuned": [
       {"m": 32, "n": 5120, "k": 25600, "batch": 1, "tactic": "NAME@splits=4", "seconds": 1.23e-05},

One entry to a line, one kernel to a line, all by name. A section is of a kind of problem and of the kernels
that its entries have seen: those that there were to choose from when they were tuned. An entry stands as long
as its own kernel does; kernels that it has not seen are tuned beside it later, and then it moves to the
section of them all.

A file is replaced whole, under a lock: a reader, and whoever kills a writer, finds the old one or the new.
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

_EXTENT = Integer(0, 2**31 - 1)  # 0: a hint that is not given
SCHEMA = Object(
    {
        "format": Integer(),
        "family": String("[a-z][a-z0-9_]*", "a family's name"),
        **FIELDS,
        "kinds": Array(
            Object(
                {
                    # What is no kind of the family's makes a section of unknown problems (`whole_kind`).
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
    """A problem's fastest tactic, and the seconds that one launch of it took."""

    problem: Any
    tactic: Tactic
    seconds: float
    seen: frozenset[str] = frozenset()
    """The kernels that there were to choose from, by name."""


@dataclass(slots=True)
class Section:
    """What a file holds of one kind of problem, chosen from one set of kernels."""

    kind: Mapping[str, Any]  # the problem's `kind_fields`
    seen: tuple[str, ...]  # names of those kernels, sorted
    rows: list[dict[str, Any]] = field(default_factory=list)  # extents by name, "tactic" (text), "seconds"


@dataclass(slots=True)
class TunedFile:
    """A tuned file as it was read: its header is not judged, and its tactics are not looked up."""

    header: Header
    family: str
    sections: list[Section]


def kind_fields(family: Family[Any]) -> list[dataclasses.Field[Any]]:
    """The fields by which files know a kind of problem: neither extents nor how operands lie."""
    others = (*family.extents, *family.placement)
    return [one for one in dataclasses.fields(family.problem) if one.name not in others]


def kind_of(family: Family[Any], problem: Any) -> dict[str, Any]:
    """The problem's values of `kind_fields`."""
    return {one.name: getattr(problem, one.name) for one in kind_fields(family)}


def extents_of(family: Family[Any], problem: Any) -> Key:
    return tuple(getattr(problem, name) for name in family.extents)


def whole_kind(family: Family[Any], kind: Mapping[str, Any]) -> dict[str, Any] | None:
    """A section's kind in the order of `kind_fields`; fields that are newer than the section have their
    defaults. None where it has other fields than problems have, or values that none of them has."""
    known = {one.name: one.default for one in kind_fields(family)}
    try:
        catalog.kind_of(family.name).check(kind)
    except Mismatch:
        return None
    whole = {name: kind.get(name, default) for name, default in known.items()}
    return whole if dataclasses.MISSING not in whole.values() else None


def is_row(row: Mapping[str, Any], family: Family[Any]) -> bool:
    """Whether an entry of a file names all extents of the family's problems, and no more, as there may be."""
    named = set(row) == {*family.extents, "tactic", "seconds"}
    return named and all(one.allows(row[one.name]) for one in family.words.extents)


def frozen(kind: Mapping[str, Any]) -> Key:
    """A kind, to look it up by."""
    return tuple(kind.items())


def read(path: Path) -> TunedFile:
    """Reads a tuned file.

    Raises FileNotFoundError where there is none, TunedFileError where it is damaged, ForeignTunedFileError
    where it is of another format.
    """
    try:
        data = reading.load_json(path, _ANY_FORMAT)
        if data["format"] != FORMAT:
            raise ForeignTunedFileError(f"{path}: format {data['format']}, this tilewright reads {FORMAT}")
        reading.check(path, data, SCHEMA)
    except UnreadableFileError as error:
        raise TunedFileError(f"{path} is damaged: {error.reason}") from None
    sections = [Section(one["kind"], tuple(sorted(set(one["seen"]))), one["tuned"]) for one in data["kinds"]]
    return TunedFile(Header.parse(data), data["family"], sections)


def family_of(path: Path, file: TunedFile) -> Family[Any]:
    """Raises ForeignTunedFileError for a file of a family that there is not."""
    if file.family not in (known := catalog.names()):
        raise ForeignTunedFileError(f"{path} is of {file.family}; the families are {', '.join(known)}")
    return families.family_of(file.family)


def update(path: Path, header: Header, family: Family[Any], entries: Iterable[Entry]) -> None:
    """Adds entries, which replace older ones of the same problems; all are on disk when it returns.

    Under a lock, so that no process loses another's entries. What the file holds otherwise stays.

    Raises TunedFileError where the file that is there is damaged, ForeignTunedFileError where it is of
    something else than `header` (neither is changed), StoreError where it cannot be written.
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
    """One section to a kind and set of kernels, one row to a problem: the last that there is of it."""
    last: dict[tuple[Key, Key], tuple[Section, dict[str, Any]]] = {}
    for section in sections:
        kind = frozen(section.kind)
        for row in section.rows:
            last[kind, _neighbours_together(row, family)] = (section, row)
    found: dict[tuple[Key, tuple[str, ...]], Section] = {}
    for kind, place in sorted(last, key=lambda key: key[1]):
        section, row = last[kind, place]
        found.setdefault((kind, section.seen), Section(section.kind, section.seen)).rows.append(row)
    return list(found.values())


def set_aside(path: Path) -> Path:
    """Renames a damaged file to the first free NAME.broken-N and returns that."""
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
    """What the file that is there holds; nothing, where there is none. Raises what `update` raises for that
    file."""
    try:
        there = read(path)
    except FileNotFoundError:
        return []
    reason = header.conflict(there.header)
    if there.family != family.name:
        reason = f"it is of {there.family}"
    if reason is not None:
        raise ForeignTunedFileError(
            f"{path} is of another machine: {reason}",
            hint="Move it away, or name another folder in TILEWRIGHT_TUNED.",
        )
    for row in (row for section in there.sections for row in section.rows):
        if not is_row(row, family):
            raise TunedFileError(f"{path} is damaged: {json.dumps(row)} is no entry")
    for section in there.sections:
        section.kind = whole_kind(family, section.kind) or section.kind
    return there.sections


def _text(file: TunedFile) -> str:
    head = {"format": FORMAT, "family": file.family, **dataclasses.asdict(file.header)}
    parts = []
    for section in sorted(file.sections, key=lambda one: (json.dumps(one.kind), one.seen)):
        opening = json.dumps({"kind": section.kind})[:-1]
        seen = ",\n".join(f"  {json.dumps(name)}" for name in section.seen)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in section.rows)
        parts.append(f'{opening}, "seen": [\n{seen}], "tuned": [\n{rows}\n]}}')
    return f'{json.dumps(head)[:-1]}, "kinds": [\n' + ",\n".join(parts) + "\n]}\n"


def _neighbours_together(row: Mapping[str, Any], family: Family[Any]) -> Key:
    """Sorts rows so that those stand together which differ in the neighbours' extent alone."""
    others = (row[name] for name in family.extents if name != family.neighbour)
    return (*others, row[family.neighbour])


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
    """The caller holds the lock, so older drafts are debris of the killed."""
    prefix = f".{path.name}."
    for debris in [each for each in path.parent.iterdir() if each.name.startswith(prefix)]:
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
