"""The nodes of a spec's YAML: plain values that remember their line and column."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tilewright_generator.errors import Position


class Scalar(NamedTuple):
    """A single value: text, a number, a boolean or null."""

    value: str | int | float | bool | None
    position: Position


class Sequence(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    position: Position


class Entry(NamedTuple):
    """A key of a mapping with its place, and its value."""

    position: Position
    value: Node


class Mapping(NamedTuple):
    """Keys and values, merge keys resolved, in the order of the file."""

    entries: dict[str, Entry]
    position: Position
    broken: bool = False
    """Whether a part of it could not be read, where anything may have stood."""


class Unreadable(NamedTuple):
    """Stands for what could not be read; the fault has been reported, so nobody need complain again."""

    position: Position


Node: TypeAlias = Scalar | Sequence | Mapping | Unreadable
