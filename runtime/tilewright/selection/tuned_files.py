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

`tools/tuning/tuned_writing.py` replaces a file whole, under a lock: a reader finds the old file or the new
one, even if a writer is killed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import reading
from tilewright.base.mismatch import Mismatch
from tilewright.base.schema import Anything, Array, Boolean, Integer, Map, Number, Object, String, Union
from tilewright.declarations import catalog
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError, TunedFileError, UnreadableFileError
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
