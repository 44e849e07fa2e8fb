"""Reads a spec's YAML into plain values with their line and column.

Every fault is reported, not only the first: a line that is broken YAML is set aside, and reading goes on.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tilewright.base import reading
from tilewright.errors import UnreadableFileError
from tilewright_generator import conflicts, repair
from tilewright_generator.errors import Faults, Position, UsageError
from tilewright_generator.nodes import Node, Unreadable

_LEADING_TAB = re.compile(r" *\t[ \t]*")
# The last three end a line in YAML, and in no editor, so that positions would be wrong.
_NOT_PRINTABLE = re.compile(f"{yaml.reader.Reader.NON_PRINTABLE.pattern}|[\x85\u2028\u2029]")


def load(path: Path, label: str, faults: Faults) -> Node:
    """Read the spec at `path`, which positions call `label`; faults go to `faults`."""
    try:
        data = reading.contents(path, reading.MOST_YAML_BYTES)
    except FileNotFoundError:
        raise UsageError(f"cannot read the spec {path}: no such file") from None
    except UnreadableFileError as error:
        raise UsageError(f"cannot read the spec {error.message}") from None
    return loads(data, label, faults)


def loads(data: bytes, label: str, faults: Faults) -> Node:
    """Read a spec's bytes (UTF-8); positions call it `label`; faults go to `faults`."""
    start, before = Position(label, 1, 1), len(faults)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        read = data[: error.start].decode().rpartition("\n")
        position = Position(label, read[0].count("\n") + 1 + bool(read[1]), len(read[2]) + 1)
        faults.add(position, "this is not UTF-8")
        return Unreadable(start)
    conflict = conflicts.first(text)
    if conflict is not None:
        message = "the conflict of a merge; resolve all of them here, then run `tilewright generate`"
        faults.add(Position(label, conflict, 1), message)
        return Unreadable(start)
    lines = text.split("\n")
    if _NOT_PRINTABLE.search(text):
        lines = [_printable(line, Position(label, number, 1), faults) for number, line in enumerate(lines, 1)]
    tabbed = _untab(lines, label, faults) if "\t" in text else set()
    root = repair.compose(lines, label, faults, tabbed)
    if root is None and len(faults) == before:
        faults.add(start, "the spec is empty")
    return Unreadable(start) if root is None else root


def _printable(line: str, start: Position, faults: Faults) -> str:
    """The line without characters that may not stand in YAML, which are reported."""
    for match in _NOT_PRINTABLE.finditer(line):
        at = Position(start.file, start.line, match.start() + 1)
        faults.add(at, f"the character {match[0]!r} may not stand in YAML")
    return _NOT_PRINTABLE.sub("", line)


def _untab(lines: list[str], label: str, faults: Faults) -> set[int]:
    """Report tabs that indent, and indent these lines with spaces. Answers their numbers, from 0."""
    tabbed: set[int] = set()
    above, item = "", 0  # the last line that is not empty; the column of the last dash
    for number, line in enumerate(lines):
        if tab := _LEADING_TAB.match(line):
            column = tab[0].index("\t") + 1
            faults.add(Position(label, number + 1, column), "a tab; YAML is indented with spaces")
            tabbed.add(number)
            line = lines[number] = _aligned(above, item, line[tab.end() :])  # noqa: PLW2901
        if line.strip():
            above = line
            if "-" in (dashes := repair.dashes(line)):
                item = dashes.rindex("-")
    return tabbed


def _aligned(above: str, item: int, body: str) -> str:
    """The text that a line with tabs likely means, so that the tab causes no further faults."""
    indent = len(repair.dashes(above))
    if above.rstrip().endswith(":"):
        return " " * (indent + 2) + body
    return " " * (item if body.startswith("- ") else indent) + body
