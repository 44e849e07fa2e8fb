"""Schemas of files, as plain data: `Object({"name": String(), "tile": Array(Integer(1), 3)})`.

The names are those of JSON Schema. `check` returns nothing, or raises Mismatch, which names the place of the
value, the expected value and the actual one. Checking a row of a table takes about 7 us.

The first lookup of a kernel waits for this module. So the classes are not dataclasses, each of which takes a
fifth of a millisecond to make, and texts among the fields are checked together, without a call for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, cached_property
from math import inf
from typing import Any, NamedTuple, Protocol

from tilewright.base.mismatch import MOST_INTEGER, Mismatch, shown

_MOST_TEXT = 65536  # characters
_MOST_DEPTH = 8  # levels of a value of `Anything`


class Schema(Protocol):
    """The values that are legal at a place."""

    @property
    def expected(self) -> str:
        """The legal values in words, with an article."""
        ...

    def check(self, value: Any) -> None:
        """Raises Mismatch if the value is not legal."""
        ...


class String:
    """A text. If there is a `pattern`, the whole text matches it, as ASCII; `expected` says so in words."""

    def __init__(self, pattern: str = "", expected: str = "text") -> None:
        self.pattern = pattern
        self.expected = expected

    @cached_property
    def _matches(self) -> Callable[[str], object]:
        return re.compile(self.pattern, re.ASCII).fullmatch

    def check(self, value: Any) -> None:
        if (
            type(value) is not str
            or len(value) > _MOST_TEXT
            or (self.pattern and not self._matches(value))
            or not (value.isascii() or _encodable(value))
        ):
            raise Mismatch.of(self.expected, value)


class Pattern:
    """A regular expression."""

    expected = "a regular expression"

    def check(self, value: Any) -> None:
        _TEXT.check(value)
        if not _is_pattern(value):
            raise Mismatch.of(self.expected, value)


class Integer(NamedTuple):
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = MOST_INTEGER

    @property
    def expected(self) -> str:
        upper = "" if self.most == MOST_INTEGER else f" to {self.most}"
        return (
            f"a whole number from {self.least}{upper}" if upper else f"a whole number, {self.least} or more"
        )

    def check(self, value: Any) -> None:
        if type(value) is not int or not self.least <= value <= self.most:
            raise Mismatch.of(self.expected, value)


class Number:
    """A finite number, whole or not; `positive` ones are more than 0, others 0 or more."""

    def __init__(self, *, positive: bool = False) -> None:
        self.positive = positive

    @property
    def expected(self) -> str:
        return "a number above 0" if self.positive else "a number, 0 or more"

    def check(self, value: Any) -> None:
        if type(value) not in (int, float) or not 0 <= value < inf or value > MOST_INTEGER:
            raise Mismatch.of(self.expected, value)
        if self.positive and not value:
            raise Mismatch.of(self.expected, value)


class Boolean:
    expected = "true or false"

    def check(self, value: Any) -> None:
        if type(value) is not bool:
            raise Mismatch.of(self.expected, value)


class Null:
    expected = "null"

    def check(self, value: Any) -> None:
        if value is not None:
            raise Mismatch.of(self.expected, value)


class Enum(NamedTuple):
    """One of these texts and whole numbers."""

    values: tuple[str | int, ...]

    @property
    def expected(self) -> str:
        words = list(map(str, self.values))
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]

    def check(self, value: Any) -> None:
        if type(value) not in (str, int) or value not in self.values:
            raise Mismatch.of(self.expected, value)


class Array(NamedTuple):
    """A list of items of one kind; `length` of them, unless it is None."""

    item: Schema
    length: int | None = None

    @property
    def expected(self) -> str:
        return "a list" if self.length is None else f"a list of {self.length}"

    def check(self, value: Any) -> None:
        if type(value) is not list or (self.length is not None and len(value) != self.length):
            raise Mismatch.of(self.expected, value)
        for index, item in enumerate(value):
            try:
                self.item.check(item)
            except Mismatch as mismatch:
                raise mismatch.within(f"[{index}]") from None


class Map:
    """A mapping of any names to values of one kind."""

    expected = "a mapping"

    def __init__(self, value: Schema, name: Schema | None = None) -> None:
        self.value = value
        self.name = String() if name is None else name
        self._any_name, self._any_value = _any_text(self.name), _any_text(value)

    def check(self, value: Any) -> None:
        if type(value) is not dict:
            raise Mismatch.of(self.expected, value)
        names_are_right = self._any_name and _short_ascii(value)
        if names_are_right and self._any_value and _short_ascii(value.values()):
            return
        name: object = None
        try:
            for name, item in value.items():
                if not names_are_right:
                    self.name.check(name)
                self.value.check(item)
        except Mismatch as mismatch:
            raise mismatch.within(f".{shown(name).strip(chr(34))}") from None


class Object:
    """A mapping with these fields. Other fields match `others`; if that is None, they are not allowed."""

    expected = "a mapping"

    def __init__(
        self,
        required: Mapping[str, Schema] | None = None,
        optional: Mapping[str, Schema] | None = None,
        others: Schema | None = None,
    ) -> None:
        self.required = required or {}
        schemas = {**self.required, **(optional or {})}
        self._checks = {name: schema.check for name, schema in schemas.items()}
        self._check_other = None if others is None else others.check
        self._plain = _any_text(others) and all(map(_any_text, schemas.values()))

    def check(self, value: Any) -> None:
        if type(value) is not dict:
            raise Mismatch.of(self.expected, value)
        for name in self.required:
            if name not in value:
                raise Mismatch(f"there is no {name!r}")
        if self._plain and _short_ascii(value.values()):
            return
        try:
            for name, item in value.items():
                check = self._checks.get(name, self._check_other)
                if check is None:
                    break
                check(item)
            else:
                return
        except Mismatch as mismatch:
            raise mismatch.within(f".{name}") from None
        raise Mismatch(f"{shown(name)} is none of its fields: {', '.join(self._checks)}")


class Union(NamedTuple):
    """A value that matches one of several schemas."""

    members: tuple[Schema, ...]

    @property
    def expected(self) -> str:
        return " or ".join(member.expected for member in self.members)

    def check(self, value: Any) -> None:
        for member in self.members:
            try:
                return member.check(value)
            except Mismatch:
                continue
        raise Mismatch.of(self.expected, value)


class Anything:
    """Any value of JSON that is not nested too deeply."""

    expected = f"a value nested {_MOST_DEPTH} deep at most"

    def check(self, value: Any) -> None:
        self._check(value, _MOST_DEPTH)

    def _check(self, value: Any, levels: int) -> None:
        kind = type(value)
        if kind is str:
            _TEXT.check(value)
        elif kind is int:
            _NUMBER.check(value)
        elif kind in (list, dict):
            if not levels:
                raise Mismatch.of(self.expected, value)
            for item in value.values() if kind is dict else value:
                self._check(item, levels - 1)


_TEXT = String()
_NUMBER = Integer(-MOST_INTEGER)


def _any_text(schema: Schema | None) -> bool:
    """Whether a schema accepts every text, and nothing else."""
    return type(schema) is String and not schema.pattern


def _short_ascii(values: Collection[Any]) -> bool:
    """Whether the values are ASCII texts that `String` accepts. False may also be a wrong answer."""
    try:
        whole = "".join(values)
    except TypeError:  # something else is among them
        return False
    return whole.isascii() and (len(whole) <= _MOST_TEXT or max(map(len, values)) <= _MOST_TEXT)


@cache
def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _encodable(text: str) -> bool:
    """Whether UTF-8 can encode the text: JSON can spell halves of characters, which no terminal accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fields(names: Iterable[str], schema: Schema) -> dict[str, Schema]:
    """Several fields with one schema."""
    return dict.fromkeys(names, schema)
