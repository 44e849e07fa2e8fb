"""Kinds of values: what the annotation of a configuration's field stands for.

An annotation is a `Literal` of texts and whole numbers, `bool`, `int` with its `Bounds`, `str` (with `OneOf`:
one of its texts), a shape, or a union of such; texts beside it in `Annotated` are for people. A kind reads a
scalar of YAML, says what it takes instead, and is written as a JSON Schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from tilewright.base.spelling import quoted, text
from tilewright.configurations.shapes import Cluster, Tile

NO = object()
"""Stands for no value: None may be one."""

_EXTENT = "[1-9][0-9]{0,5}"  # no leading zeros, so that a shape has one spelling and one name
_SHAPES = {Tile: ["128x256x64"], Cluster: ["1x1", "2x1"]}  # with examples
_JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}


class Bounds(NamedTuple):
    """Of whole numbers: `Annotated[int, Bounds(32, 1024, multiple=32)]`."""

    least: int
    most: int
    multiple: int = 1


class ValueKind:
    """One kind of values."""

    def read(self, given: object) -> Any:
        """The value that a scalar stands for, or `NO`."""
        raise NotImplementedError

    def words(self) -> list[str]:
        """The values as they are spelt, where they are few."""
        return []

    def wanted(self, given: object) -> str:
        """What is wanted instead of a scalar that is none; empty where `words` say it."""
        return ""

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        raise NotImplementedError


@dataclass(frozen=True)
class OneOf(ValueKind):
    """One of these texts and numbers, or of true and false."""

    values: tuple[Any, ...]

    def read(self, given: object) -> Any:
        # In Python 1 is equal to True; in a spec neither stands for the other.
        return next((one for one in self.values if one == given and type(one) is type(given)), NO)

    def words(self) -> list[str]:
        return [text(one) for one in self.values]

    def json_schema(self) -> dict[str, Any]:
        names = {_JSON_TYPES[type(one)] for one in self.values}
        kind = {"type": names.pop()} if len(names) == 1 else {}
        if kind == {"type": "boolean"}:
            return kind
        return ({"enum": [*self.values]} if self.values[1:] else {"const": self.values[0]}) | kind


@dataclass(frozen=True)
class Whole(ValueKind):
    """A whole number within bounds."""

    bounds: Bounds

    def read(self, given: object) -> Any:
        return NO if self.wanted(given) else given

    def wanted(self, given: object) -> str:
        least, most, multiple = self.bounds
        if type(given) is not int:
            return "a valid integer"
        if given % multiple:
            return f"a multiple of {multiple}"
        if given > most:
            return f"less than or equal to {most}"
        return f"greater than or equal to {least}" if given < least else ""

    def json_schema(self) -> dict[str, Any]:
        least, most, multiple = self.bounds
        bounds = {"maximum": most, "minimum": least, "multipleOf": multiple, "type": "integer"}
        return {name: one for name, one in bounds.items() if name != "multipleOf" or multiple > 1}


@dataclass(frozen=True)
class Text(ValueKind):
    """Any text."""

    def read(self, given: object) -> Any:
        return given if isinstance(given, str) else NO

    def wanted(self, given: object) -> str:
        return "a valid string"

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True)
class Shape(ValueKind):
    """A tile or a cluster: `128x256x64`."""

    made: type[Tile] | type[Cluster]

    @property
    def _pattern(self) -> str:
        return "x".join([_EXTENT] * len(self.made._fields))

    def read(self, given: object) -> Any:
        if not isinstance(given, str) or not re.fullmatch(self._pattern, given):
            return NO
        return self.made(*map(int, given.split("x")))

    def wanted(self, given: object) -> str:
        name, letters = self.made.__name__.lower(), "x".join(map(str.upper, self.made._fields))
        shown = quoted(given) if isinstance(given, str) else repr(given)
        return (
            f"{shown} is not a {name}; write {letters} in positive whole numbers, for example "
            f"{_SHAPES[self.made][-1]}"
        )

    def json_schema(self) -> dict[str, Any]:
        return {"examples": _SHAPES[self.made], "pattern": f"^{self._pattern}$", "type": "string"}


def of(annotation: Any) -> tuple[ValueKind, ...]:
    """The kinds that an annotation names: a value is one of any. TypeError for any other annotation."""
    base, *notes = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    notes = [one for one in notes if not isinstance(one, str)]
    if base is int and len(notes) == 1 and isinstance(notes[0], Bounds):
        return (Whole(notes[0]),)
    if base is str and len(notes) == 1 and isinstance(notes[0], OneOf):
        return (notes[0],)
    if not notes and get_origin(base) in (Union, UnionType):
        return tuple(kind for one in get_args(base) for kind in of(one))
    if not notes and get_origin(base) is Literal:
        return (OneOf(get_args(base)),)
    known: dict[Any, ValueKind] = {bool: OneOf((True, False)), str: Text()} | {
        one: Shape(one) for one in _SHAPES
    }
    if notes or base not in known:
        raise TypeError(f"a field has no values of {annotation}; see tilewright.configurations.value_kinds")
    return (known[base],)
