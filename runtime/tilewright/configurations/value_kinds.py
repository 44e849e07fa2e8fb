"""Kinds of values: what the annotation of a configuration's field stands for.

An annotation is a `Literal` of texts and whole numbers, `bool`, `int` with its `Bounds`, `str` (with `OneOf`:
one of its texts), a shape, or a union of such; texts beside it in `Annotated` are for people. A kind reads a
scalar of YAML, says what it takes instead, and is written as a JSON Schema. In a table's row a shape is a
list of its numbers: `schema` says what a row may hold.

Who looks a kernel up for the first time waits for this module, as for `base.schema`: no class of it is a
dataclass.
"""

import re
import typing
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from tilewright.base.schema import Array, Boolean, Enum, Integer, Schema, String, Union
from tilewright.configurations.shapes import Cluster, Tile

NO = object()
"""Stands for no value: None may be one."""

_MOST_EXTENT = 999_999
_EXTENT = "[1-9][0-9]{0,5}"  # no leading zeros, so that a shape has one spelling and one name
_SHAPES = {Tile: ["128x256x64"], Cluster: ["1x1", "2x1"]}  # with examples
_JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}


class Bounds(NamedTuple):
    """The bounds of a whole number: `Annotated[int, Bounds(32, 1024, multiple=32)]`."""

    least: int
    most: int
    multiple: int = 1


class ValueKind:
    """One kind of values."""

    def read(self, scalar: object) -> Any:
        """The value that a scalar stands for, or `NO`."""
        raise NotImplementedError

    def words(self) -> list[str]:
        """The values as they are spelt, where they are few."""
        return []

    def expected(self, scalar: object) -> str:
        """What is expected in place of a scalar that is not a value; empty where `words` lists the values."""
        return ""

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        raise NotImplementedError

    def schema(self) -> Schema:
        """The schema of a value in a row of a table."""
        raise NotImplementedError


class OneOf(ValueKind):
    """An enumeration of texts, of whole numbers, or of true and false."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def read(self, scalar: object) -> Any:
        # In Python 1 equals True, but a spec must not write one for the other.
        return next((value for value in self.values if value == scalar and type(value) is type(scalar)), NO)

    def words(self) -> list[str]:
        from tilewright.base.spelling import text  # noqa: PLC0415 (no reader of tables asks)

        return [text(value) for value in self.values]

    def json_schema(self) -> dict[str, Any]:
        names = {_JSON_TYPES[type(value)] for value in self.values}
        kind = {"type": names.pop()} if len(names) == 1 else {}
        if kind == {"type": "boolean"}:
            return kind
        return ({"enum": [*self.values]} if self.values[1:] else {"const": self.values[0]}) | kind

    def schema(self) -> Schema:
        return Boolean() if bool in map(type, self.values) else Enum(self.values)


class Whole(ValueKind):
    """A whole number within bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def read(self, scalar: object) -> Any:
        return NO if self.expected(scalar) else scalar

    def expected(self, scalar: object) -> str:
        least, most, multiple = self.bounds
        if type(scalar) is not int:
            return "a valid integer"
        if scalar % multiple:
            return f"a multiple of {multiple}"
        if scalar > most:
            return f"less than or equal to {most}"
        return f"greater than or equal to {least}" if scalar < least else ""

    def json_schema(self) -> dict[str, Any]:
        least, most, multiple = self.bounds
        bounds = {"maximum": most, "minimum": least, "multipleOf": multiple, "type": "integer"}
        return {name: value for name, value in bounds.items() if name != "multipleOf" or multiple > 1}

    def schema(self) -> Schema:
        return Integer(self.bounds.least, self.bounds.most)


class Text(ValueKind):
    """Any text."""

    def read(self, scalar: object) -> Any:
        return scalar if isinstance(scalar, str) else NO

    def expected(self, scalar: object) -> str:
        return "a valid string"

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def schema(self) -> Schema:
        return String()


class Shape(ValueKind):
    """A tile or a cluster: `128x256x64`."""

    def __init__(self, shape: type[Tile] | type[Cluster]) -> None:
        self.shape = shape

    @property
    def _pattern(self) -> str:
        return "x".join([_EXTENT] * len(self.shape._fields))

    def read(self, scalar: object) -> Any:
        if not isinstance(scalar, str) or not re.fullmatch(self._pattern, scalar):
            return NO
        return self.shape(*map(int, scalar.split("x")))

    def expected(self, scalar: object) -> str:
        from tilewright.base.spelling import quoted  # noqa: PLC0415 (no reader of tables asks)

        name, letters = self.shape.__name__.lower(), "x".join(map(str.upper, self.shape._fields))
        shown = quoted(scalar) if isinstance(scalar, str) else repr(scalar)
        return (
            f"{shown} is not a {name}; write {letters} in whole numbers from 1 to {_MOST_EXTENT}, "
            f"for example {_SHAPES[self.shape][-1]}"
        )

    def json_schema(self) -> dict[str, Any]:
        return {"examples": _SHAPES[self.shape], "pattern": f"^{self._pattern}$", "type": "string"}

    def schema(self) -> Schema:
        return Array(Integer(1, _MOST_EXTENT), len(self.shape._fields))


def schema_of(annotation: Any) -> Schema:
    """What a table's row holds of a field."""
    schemas = [kind.schema() for kind in of(annotation)]
    return Union(tuple(schemas)) if len(schemas) > 1 else schemas[0]


def of(annotation: Any) -> tuple[ValueKind, ...]:
    """The kinds that an annotation names: a value is one of any. TypeError for any other annotation."""
    base, *notes = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    notes = [note for note in notes if not isinstance(note, str)]
    if base is int and len(notes) == 1 and isinstance(notes[0], Bounds):
        return (Whole(notes[0]),)
    if base is str and len(notes) == 1 and isinstance(notes[0], OneOf):
        return (notes[0],)
    if not notes and get_origin(base) in (typing.Union, UnionType):
        return tuple(kind for alternative in get_args(base) for kind in of(alternative))
    if not notes and get_origin(base) is Literal:
        return (OneOf(get_args(base)),)
    kinds: dict[Any, ValueKind] = {bool: OneOf((True, False)), str: Text()} | {
        shape: Shape(shape) for shape in _SHAPES
    }
    if notes or base not in kinds:
        raise TypeError(f"a field has no values of {annotation}; see tilewright.configurations.value_kinds")
    return (kinds[base],)
