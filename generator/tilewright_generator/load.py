"""Reads a spec's YAML into plain values that remember their line and column.

Every fault is reported, not only the first: where YAML itself is broken, the broken line is set aside and
the reading goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from tilewright import reading
from tilewright.errors import UnreadableFileError
from tilewright.spelling import did_you_mean
from tilewright_generator import conflicts
from tilewright_generator.errors import Position, Problems, UsageError
from tilewright_generator.scalars import Trap, resolve
from tilewright_generator.words import quoted


class Scalar(NamedTuple):
    """A single value: text, a number, a boolean or null."""

    value: str | int | float | bool | None
    position: Position


class Sequence(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    position: Position


class Entry(NamedTuple):
    """A key of a mapping, where it stands, and its value."""

    position: Position
    value: Node


class Mapping(NamedTuple):
    """Keys and values, merge keys resolved, in the order of the file."""

    entries: dict[str, Entry]
    position: Position
    broken: bool = False
    """Whether YAML is broken in one of its lines, where anything may have stood."""


class Unreadable(NamedTuple):
    """Stands for what could not be read; the fault has been reported, so nobody need complain again."""

    position: Position


Node: TypeAlias = Scalar | Sequence | Mapping | Unreadable

# Without implicit resolvers: `scalars.resolve` decides what a word means, once and for every machine.
_FAST_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_UNREADABLE = "\ue000"  # a private-use character: begins what replaces a broken line
_NO_TAG = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
_LEADING_TAB = re.compile(r"^ *\t[ \t]*", re.MULTILINE)
_NOT_PRINTABLE = yaml.reader.Reader.NON_PRINTABLE
# Texts: only what is wrong is matched with these, and to compile them takes 2 ms.
_SKELETON = r"(?P<item>[ ]*(?:-[ ]+)*)(?P<key>[A-Za-z_][\w-]*:(?=\s|$))?"
_UNSPACED = r" *(?:- +)*(?P<key>[A-Za-z_]\w*:)(?=[^\s:/])"
# In these the fault is where the construct opens; elsewhere it is where the parser stopped.
_OPENED = ("while parsing a flow", "while scanning a quoted", "while scanning a simple key")


def load(path: Path, label: str, problems: Problems) -> Node:
    """Read the spec at `path`, which positions call `label`; faults go to `problems`."""
    try:
        data = reading.contents(path, reading.MOST_YAML_BYTES)
    except FileNotFoundError:
        raise UsageError(f"cannot read the spec {path}: no such file") from None
    except UnreadableFileError as error:
        raise UsageError(f"cannot read the spec {error.message}") from None
    return loads(data, label, problems)


def loads(data: bytes, label: str, problems: Problems) -> Node:
    """Read a spec's bytes (UTF-8); positions call it `label`; faults go to `problems`."""
    start, before = Position(label, 1, 1), len(problems)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add(_locate(data[: error.start].decode(), error.start, label), "this is not UTF-8")
        return Unreadable(start)
    conflict = conflicts.first(text)
    if conflict is not None:
        message = "the conflict of a merge; resolve all of them here, then run `tilewright generate`"
        problems.add(Position(label, conflict, 1), message)
        return Unreadable(start)
    for match in _NOT_PRINTABLE.finditer(text):
        problems.add(_locate(text, match.start(), label), f"the character {match[0]!r} may not stand in YAML")
    tabs = [
        _locate(text, match.end() - len(match[0].lstrip(" ")), label) for match in _LEADING_TAB.finditer(text)
    ]
    for tab in tabs:
        problems.add(tab, "a tab; YAML is indented with spaces")
    lines = _NOT_PRINTABLE.sub("", text).split("\n")
    for tab in tabs:
        lines[tab.line - 1] = _aligned(lines[: tab.line - 1], lines[tab.line - 1].lstrip(" \t"))
    deep = reading.too_deep("\n".join(lines))
    if deep is not None:
        message = f"nested more than {reading.MOST_DEPTH} deep; no spec needs that"
        problems.add(Position(label, *deep), message)
        return Unreadable(start)
    broken: set[int] = set()
    root = _compose(lines, label, problems, {tab.line - 1 for tab in tabs}, broken)
    if root is None:
        if len(problems) == before:
            problems.add(start, "the spec is empty")
        return Unreadable(start)
    return _Reader(label, problems, broken).node(root)


def _locate(text: str, offset: int, label: str) -> Position:
    line_start = text.rfind("\n", 0, offset) + 1
    return Position(label, text.count("\n", 0, offset) + 1, min(offset, len(text)) - line_start + 1)


def _aligned(before: list[str], body: str) -> str:
    """The text of a tabbed line where it is likely meant, so that the tab brings no other faults with it."""
    above = [line for line in reversed(before) if line.strip()]
    items = [match["item"] if (match := re.match(_SKELETON, line)) else "" for line in above]
    if above and above[0].rstrip().endswith(":"):
        return " " * (len(items[0]) + 2) + body
    if body.startswith("- "):
        return " " * next((item.rindex("-") for item in items if "-" in item), 0) + body
    return " " * len(items[0] if items else "") + body


def _compose(
    lines: list[str], label: str, problems: Problems, reported: set[int], broken: set[int]
) -> yaml.Node | None:
    """PyYAML's node tree; a line that it cannot parse is reported, replaced and the rest tried again. It is
    added to `broken`."""
    try:
        return _parse(lines, _FAST_LOADER)
    except yaml.YAMLError:
        pass  # PyYAML's own parser gives better messages and positions than libyaml
    while True:
        try:
            return _parse(lines, yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            opened = (error.context or "").startswith(_OPENED)
            mark = error.context_mark if opened else error.problem_mark
            line = min(mark.line, len(lines) - 1) if mark else 0
            if line not in reported and (unspaced := _unspaced(lines, line, error)):
                at, match = unspaced
                message = f"a space is missing after '{match['key']}'"
                problems.add(Position(label, at + 1, match.start("key") + 1), message)
                lines[at] = f"{match[0]} {lines[at][match.end() :]}"
                continue
            if line not in reported:
                column = mark.column + 1 if mark else 1
                problems.add(Position(label, line + 1, column), _explain(error) + _anchors(error, lines))
            elif not lines[line]:
                return None
            lines[line] = "" if line in reported else _skeleton(lines[line])
            reported.add(line)
            broken.add(line)
        except RecursionError:  # too deep, behind a fault that `too_deep` stopped at
            return None


def _parse(lines: list[str], loader: Any) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose("\n".join(lines) + "\n", Loader=loader)
    return node


def _explain(error: yaml.MarkedYAMLError) -> str:
    if error.problem == "but found another document":
        return "a second document; a spec is one document"
    if error.context == "while scanning a block scalar":
        return "YAML: '>' and '|' begin a block of text; put a value that begins with one in quotes"
    problem = (error.problem or "").replace("'<stream end>'", "the end of the file")
    if problem.startswith("expected <block end>") and problem.endswith(" start>'"):
        return "this line is indented as no line above it is"
    context = f"{error.context}, " if error.context else ""
    return f"YAML: {context}{problem}"


def _anchors(error: yaml.MarkedYAMLError, lines: list[str]) -> str:
    """Which anchors there are, or where the one stands that an alias names too early."""
    if not (error.problem or "").startswith("found undefined alias"):
        return ""
    name = (error.problem or "").split("'")[1]
    anchors: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        for one in re.findall(r"(?:^|[\s,\[{])&([\w-]+)", line):
            anchors.setdefault(one, number)
    if name in anchors:
        return f"; its anchor stands below, on line {anchors[name]}"
    return did_you_mean(name, anchors) or f"; there are: {', '.join(anchors) or 'none'}"


def _unspaced(lines: list[str], line: int, error: yaml.MarkedYAMLError) -> tuple[int, re.Match[str]] | None:
    """Where `key:value`, which is one word to YAML, makes the fault: here, or in the line before."""
    runs_on = (error.problem or "").startswith("mapping values") and line > 0
    for at in (line, line - 1) if runs_on else (line,):
        if match := re.match(_UNSPACED, lines[at]):
            return at, match
    return None


def _skeleton(line: str) -> str:
    """The line with its dashes and its key, so that what follows keeps its place, but without its value."""
    match = re.match(_SKELETON, line)
    item, key = (match["item"], match["key"]) if match else ("", None)
    if key:
        return f"{item}{key} {_UNREADABLE}"
    return f"{item}{_UNREADABLE}" if item.strip() else ""


class _Reader:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, label: str, problems: Problems, broken: set[int]) -> None:
        self._label = label
        self._problems = problems
        self._broken = broken
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, raw: yaml.Node) -> Node:
        """The value of `raw`; an alias gives the very node that its anchor gave."""
        if id(raw) in self._open:
            position = self._position(raw)
            self._problems.add(position, "an alias stands inside what it names")
            return Unreadable(position)
        if id(raw) not in self._done:
            self._open.add(id(raw))
            self._done[id(raw)] = self._convert(raw)
            self._open.discard(id(raw))
        return self._done[id(raw)]

    def _convert(self, raw: yaml.Node) -> Node:
        position = self._position(raw)
        if raw.tag not in _NO_TAG:
            self._problems.add(position, f"a YAML tag ({raw.tag}); specs use none")
            return Unreadable(position)
        if isinstance(raw, yaml.ScalarNode):
            return self._scalar(raw, position)
        if isinstance(raw, yaml.MappingNode):
            first, behind = raw.start_mark.line, max(raw.end_mark.line, raw.start_mark.line + 1)
            broken = any(first <= line < behind for line in self._broken)
            return Mapping(dict(self._entries(raw)), position, broken)
        return Sequence(tuple(map(self.node, raw.value)), position)

    def _scalar(self, raw: yaml.ScalarNode, position: Position) -> Scalar | Unreadable:
        text: str = raw.value
        if raw.style:  # quoted, or a block: text
            return Scalar(text, position)
        if text.startswith(_UNREADABLE):
            return Unreadable(position)
        value = resolve(text)
        if isinstance(value, Trap):
            self._problems.add(position, value.message)
            return Unreadable(position)
        return Scalar(value, position)

    def _entries(self, raw: yaml.MappingNode) -> Iterator[tuple[str, Entry]]:
        """The mapping's own entries in order, then those that merge keys bring and it does not have."""
        own: dict[str, Position] = {}
        merged: list[Mapping] = []
        for key, value in raw.value:
            position = self._position(key)
            if not isinstance(key, yaml.ScalarNode):
                self._problems.add(position, "a key is a single word, not a list or a mapping")
            elif key.value == "<<" and not key.style:
                merged.extend(self._merged(value))
            elif key.value in own:
                first = own[key.value].line
                self._problems.add(
                    position, f"duplicate key {quoted(key.value)}; it stands on line {first} too"
                )
            else:
                own[key.value] = position
                yield key.value, Entry(position, self.node(value))
        for mapping in merged:
            for name, entry in mapping.entries.items():
                if name not in own:
                    own[name] = entry.position
                    yield name, entry

    def _merged(self, raw: yaml.Node) -> Iterator[Mapping]:
        node = self.node(raw)
        for part in node.items if isinstance(node, Sequence) else (node,):
            if isinstance(part, Mapping):
                yield part
            elif not isinstance(part, Unreadable):
                self._problems.add(part.position, "'<<' merges mappings; this is not one")

    def _position(self, raw: yaml.Node) -> Position:
        return Position(self._label, raw.start_mark.line + 1, raw.start_mark.column + 1)
