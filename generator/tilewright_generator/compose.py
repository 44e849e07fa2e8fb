"""Builds a spec's nodes from the events of a YAML parser: one pass, in which work is counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import yaml

from tilewright.base import reading
from tilewright.base.spelling import did_you_mean, listed, quoted
from tilewright_generator.errors import Faults, Message, Position
from tilewright_generator.limits import MOST_VALUES
from tilewright_generator.nodes import Entry, Mapping, Node, Scalar, Sequence, Unreadable
from tilewright_generator.scalars import Trap, resolve

UNREADABLE = "\ue000"  # a private-use character: begins what replaces a broken line
_NO_TAG = {None, "!"} | {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}


class ExcessError(Exception):
    """A spec exceeds a limit, so it is not read further."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


class _Anchor(NamedTuple):
    """The node that an anchor names."""

    position: Position
    node: Node | None
    """None while it is being read."""
    word: str | None = None
    """The text of a scalar, as it is written."""
    size: int = 0
    """How many values it stands for."""


class Composer:
    """Composes one document; its faults are kept until `report`, because a broken line discards them."""

    def __init__(self, label: str, broken: set[int]) -> None:
        """`broken`: the lines, from 0, that were replaced because YAML is broken in them."""
        self._label = label
        self._broken = sorted(broken)
        self._faults: list[tuple[Position, Message]] = []
        self._anchors: dict[str, _Anchor] = {}
        self._undefined: list[tuple[str, Position]] = []
        self._values = 0
        self._depth = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        """The root of the first document; None if there is none. A second document is a fault, and is not
        read.

        Raises yaml.YAMLError if the YAML is broken, ExcessError if it exceeds a limit.
        """
        self._events = events
        root = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    message = "a second document; a spec is one document"
                    self._faults.append((self._position(event), message))
                    break
                root = self._node(next(self._events))
        return root

    def report(self, faults: Faults) -> None:
        """Hand over what is wrong with the document."""
        for position, message in self._faults:
            faults.add(position, message)
        for name, position in self._undefined:
            faults.add(position, partial(self._not_defined, name))

    def _node(self, event: Any) -> Node:
        """The value that begins with `event`; an alias gives the very node that its anchor gave."""
        position = self._position(event)
        if type(event) is yaml.AliasEvent:
            return self._alias(str(event.anchor), position)
        self._count(1, position)
        if event.anchor is None:
            return self._value(event, position)
        first = self._anchors.get(event.anchor)
        if first is not None:
            anchor = quoted(event.anchor)
            self._faults.append(
                (position, f"duplicate anchor {anchor}; it stands on line {first.position.line} too")
            )
        before = self._values
        self._anchors[event.anchor] = _Anchor(position, None)
        node = self._value(event, position)
        word = event.value if type(event) is yaml.ScalarEvent else None
        self._anchors[event.anchor] = _Anchor(position, node, word, 1 + self._values - before)
        return node

    def _alias(self, name: str, position: Position) -> Node:
        anchor = self._anchors.get(name)
        if anchor is None:
            self._undefined.append((name, position))
        elif anchor.node is None:
            self._faults.append((anchor.position, "an alias stands inside what it names"))
        else:
            self._count(anchor.size, position)
            return anchor.node
        return Unreadable(position)

    def _not_defined(self, name: str) -> str:
        """The message about an alias that no anchor above it defines."""
        fault = f"YAML: found undefined alias {quoted(name)}"
        if name in self._anchors:
            return f"{fault}; its anchor stands below, on line {self._anchors[name].position.line}"
        return fault + (did_you_mean(name, self._anchors) or f"; there are: {listed([*self._anchors])}")

    def _value(self, event: Any, position: Position) -> Node:
        node: Node
        if type(event) is yaml.ScalarEvent:
            node = self._scalar(event, position)
        else:
            self._depth += 1
            if self._depth > reading.MOST_DEPTH:
                message = f"nested more than {reading.MOST_DEPTH} deep; no spec needs that"
                raise ExcessError(position, message)
            in_list = type(event) is yaml.SequenceStartEvent
            node = self._sequence(position) if in_list else self._mapping(event, position)
            self._depth -= 1
        if event.tag in _NO_TAG:
            return node
        self._faults.append((position, f"a YAML tag ({event.tag}); specs use none"))
        return Unreadable(position)

    def _scalar(self, event: Any, position: Position) -> Scalar | Unreadable:
        text: str = event.value
        if event.style:  # quoted, or a block: text
            return Scalar(text, position)
        if text.startswith(UNREADABLE) and event.start_mark.line in self._broken:
            return Unreadable(position)
        value = resolve(text)
        if isinstance(value, Trap):
            self._faults.append((position, value.message))
            return Unreadable(position)
        return Scalar(value, position)

    def _sequence(self, position: Position) -> Sequence:
        items: list[Node] = []
        while type(event := next(self._events)) is not yaml.SequenceEndEvent:
            items.append(self._node(event))
        return Sequence(tuple(items), position)

    def _mapping(self, start: Any, position: Position) -> Mapping:
        """The mapping's own entries in order, then those that merge keys bring and it does not have."""
        own: dict[str, Entry] = {}
        merged: list[Mapping] = []
        unread = False
        while type(event := next(self._events)) is not yaml.MappingEndEvent:
            at = self._position(event)
            word = self._key(event)
            value = self._node(next(self._events))
            if word is None:
                unread = True
            elif word == "<<" and not getattr(event, "style", None):
                unread |= not self._merge(value, merged)
            elif word in own:
                first = own[word].position.line
                self._faults.append((at, f"duplicate key {quoted(word)}; it stands on line {first} too"))
            else:
                own[word] = Entry(at, value)
        for mapping in merged:  # which an alias has counted
            unread |= mapping.broken
            for name, entry in mapping.entries.items():
                if name not in own:
                    own[name] = entry
        return Mapping(own, position, unread or self._is_broken(start, event))

    def _key(self, event: Any) -> str | None:
        """The text of a key; None if the key is not text."""
        if type(event) is yaml.ScalarEvent and event.anchor is None:
            return str(event.value)
        node = self._node(event)
        if type(event) is yaml.ScalarEvent:
            return str(event.value)
        word = self._anchors[event.anchor].word if event.anchor in self._anchors else None
        if word is None and not isinstance(node, Unreadable):
            self._faults.append((self._position(event), "a key is a single word, not a list or a mapping"))
        return word

    def _merge(self, node: Node, merged: list[Mapping]) -> bool:
        """Add what a merge key names to `merged`. Answers whether all of it could be read."""
        parts = node.items if isinstance(node, Sequence) else (node,)
        for part in parts:
            if isinstance(part, Mapping):
                merged.append(part)
            elif not isinstance(part, Unreadable):
                self._faults.append((part.position, "'<<' merges mappings; this is not one"))
        return not any(isinstance(part, Unreadable) for part in parts)

    def _is_broken(self, start: Any, end: Any) -> bool:
        """Whether one of the lines of a mapping is broken."""
        if not self._broken:
            return False
        first, after = start.start_mark.line, end.end_mark.line
        at = bisect_left(self._broken, first)
        return at < len(self._broken) and self._broken[at] < after

    def _count(self, values: int, position: Position) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise ExcessError(
                position,
                f"up to here the spec stands for more than {MOST_VALUES:,} values, those that aliases and "
                "merge keys repeat counted each time; split it into several specs",
            )

    def _position(self, event: Any) -> Position:
        mark = event.start_mark
        return Position(self._label, mark.line + 1, mark.column + 1)
