"""`bundle.json`: the problems of a bundle, the tactic of each value of their extent, and the kernels."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.base import reading
from tilewright.base.schema import Anything, Array, Boolean, Integer, Map, Null, Number, Object, String, Union
from tilewright.declarations import catalog
from tilewright.errors import BundleError, UnreadableFileError
from tilewright.selection.family import Family

NAME = "bundle.json"
FORMAT = 1
_SHOWN = 60  # characters of a name in a message
_ENTRY = Object(
    {
        "layers": Array(String()),
        "op": String(),
        "family": String(),
        "fields": Map(Union((String(), Boolean(), Number(), Null()))),
        "extent": String(),
        "values": Array(Integer(), 3),
        "choices": Array(Array(Integer(), 2)),
    }
)
SCHEMA = Object(
    {
        "format": Integer(),
        "tilewright": String(),
        "title": String(),
        "device": Object(
            {
                "name": String(),
                "capability": Array(Integer(), 2),
                "sm_count": Integer(1),
                "clock_hz": Number(),
                "memory_bandwidth": Number(),
                "l2_bytes": Integer(),
                "shared_memory": Integer(),
                "clusters": Array(Integer()),
            }
        ),
        "batch_invariant": Boolean(),
        "kernels": Map(Object({"module": String(), "made_of": String()})),
        "tactics": Array(String()),
        "problems": Array(_ENTRY),
    }
)
_ANY_FORMAT = Object({"format": Integer()}, others=Anything())


class Kernel(NamedTuple):
    """A kernel of a bundle."""

    module: str
    made_of: str  # a digest of its source and flags (`compile.compilers.made_of`)


@dataclass(frozen=True)
class Entry:
    """A problem, and the tactics for the values of one of its extents."""

    layers: tuple[str, ...]
    op: str
    family: str
    fields: Mapping[str, Any]  # of the problem, without the extent and those of placement
    extent: str
    values: range
    choices: tuple[tuple[int, int], ...]  # the first value of a range, and the number of its tactic

    def number(self, value: int) -> int:
        """The number of the tactic for a value of the extent."""
        return self.choices[bisect_right(self.choices, value, key=itemgetter(0)) - 1][1]


@dataclass(frozen=True)
class Manifest:
    """The content of a `bundle.json`."""

    tilewright: str  # the release that made it
    title: str
    device: DeviceProperties
    batch_invariant: bool
    kernels: Mapping[str, Kernel]
    tactics: tuple[str, ...]
    entries: tuple[Entry, ...]

    def text(self) -> str:
        """The text of the file: an entry, a kernel and a tactic to a line."""
        head: dict[str, Any] = {
            "format": FORMAT,
            "tilewright": self.tilewright,
            "title": self.title,
            "device": self.device._asdict(),
            "batch_invariant": self.batch_invariant,
        }
        kernels = [f"{json.dumps(name)}: {json.dumps(k._asdict())}" for name, k in self.kernels.items()]
        parts = {
            "kernels": _lines("{", kernels, "}"),
            "tactics": _lines("[", [json.dumps(tactic) for tactic in self.tactics], "]"),
            "problems": _lines("[", [json.dumps(_as_json(entry)) for entry in self.entries], "]"),
        }
        rest = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
        return f"{json.dumps(head)[:-1]},\n{rest}}}\n"


def read(folder: Path) -> Manifest:
    """The manifest of a bundle. Raises BundleError if there is none, or if it is of another format;
    UnreadableFileError if it is damaged."""
    path = folder / NAME
    try:
        data = reading.load_json(path, _ANY_FORMAT)
    except FileNotFoundError:
        raise BundleError(
            f"{folder} is no bundle: there is no {NAME} in it",
            hint="`tilewright bundle --model config.json -o FOLDER` makes one.",
        ) from None
    if data["format"] != FORMAT:
        raise BundleError(
            f"{path} has format {data['format']}, this tilewright reads {FORMAT}",
            hint="Make the bundle again.",
        )
    reading.check(path, data, SCHEMA)
    for number, entry in enumerate(data["problems"]):
        if reason := _fault(entry, len(data["tactics"])):
            raise UnreadableFileError(path, f"problems[{number}]: {reason}")
    device = {**data["device"], **{name: tuple(data["device"][name]) for name in ("capability", "clusters")}}
    return Manifest(
        tilewright=data["tilewright"],
        title=data["title"],
        device=DeviceProperties(**device),
        batch_invariant=data["batch_invariant"],
        kernels={name: Kernel(**kernel) for name, kernel in data["kernels"].items()},
        tactics=tuple(data["tactics"]),
        entries=tuple(map(_entry, data["problems"])),
    )


@cache
def key_fields(family: str, extent: str, placement: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of a family's problems that identify an entry: all but the extent that varies and those that
    say how operands are aligned, which tuned files leave out, too."""
    names = (field.name for field in fields(catalog.words_of(family).problem))
    return tuple(name for name in names if name != extent and name not in placement)


def fields_of(family: Family[Any], problem: Any, extent: str) -> dict[str, Any]:
    """The fields of a problem that identify an entry, by name."""
    return {name: getattr(problem, name) for name in key_fields(family.name, extent, family.placement)}


def _lines(start: str, lines: Sequence[str], end: str) -> str:
    return start + ",".join(f"\n  {line}" for line in lines) + f"\n{end}"


def _as_json(entry: Entry) -> dict[str, Any]:
    values = entry.values
    return {
        "layers": entry.layers,
        "op": entry.op,
        "family": entry.family,
        "fields": entry.fields,
        "extent": entry.extent,
        "values": [values[0], values[-1], values.step],
        "choices": entry.choices,
    }


def _fault(entry: Mapping[str, Any], tactics: int) -> str | None:
    """What is wrong with an entry: its family, extent, values or choices. The file has `tactics` tactics."""
    if entry["family"] not in catalog.names():
        return f"family: there is no family named {entry['family'][:_SHOWN]!r}"
    words = catalog.words_of(entry["family"])
    extents = [extent.name for extent in words.extents]
    if entry["extent"] not in extents:
        return f"extent: expected one of {', '.join(extents)}, got {entry['extent'][:_SHOWN]!r}"
    names = {field.name for field in fields(words.problem)}
    if unknown := sorted(entry["fields"].keys() - names):
        return f"fields: {unknown[0][:_SHOWN]!r} is no field of a problem of {entry['family']}"
    first, last, step = entry["values"]
    if last < first or step < 1:
        return f"values: expected the first, the last and a step of at least 1, got {entry['values']}"
    begins = [value for value, _ in entry["choices"]]
    if begins[:1] != [first] or begins != sorted(begins):
        return f"choices: expected values that begin with {first} and grow, got {begins[:3]}"
    wrong = [tactic for _, tactic in entry["choices"] if tactic >= tactics]
    return f"choices: expected a number below {tactics}, got {wrong[0]}" if wrong else None


def _entry(data: Mapping[str, Any]) -> Entry:
    first, last, step = data["values"]
    return Entry(
        tuple(data["layers"]),
        data["op"],
        data["family"],
        data["fields"],
        data["extent"],
        range(first, last + 1, step),
        tuple((value, number) for value, number in data["choices"]),
    )
