"""Reads YAML with broken lines: each is reported and replaced, and the rest is read again, within limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import yaml

from tilewright_generator.compose import UNREADABLE, Composer, ExcessError
from tilewright_generator.errors import Faults, Position
from tilewright_generator.limits import (
    MOST_BROKEN_LINES,
    MOST_EXPLAINED_BYTES,
    MOST_OPEN_BRACKETS,
    MOST_PARSED_BYTES,
)
from tilewright_generator.nodes import Node

# Without implicit resolvers: `scalars.resolve` decides what a word means, once and for every machine.
_FAST: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_BRACKET = re.compile(r"[\[\]{}]")
_DASHES = re.compile(r"[ ]*(?:-[ ]+)*")
_KEY = re.compile(r"[A-Za-z_][\w-]*:(?=\s|$)")
_UNSPACED = re.compile(r" *(?:- +)*(?P<key>[A-Za-z_]\w*:)(?=[^\s:/])")
# In these the fault is where the construct opens; elsewhere it is where the parser stopped.
_OPENED = ("while parsing a flow", "while scanning a quoted", "while scanning a simple key")


def compose(lines: list[str], label: str, faults: Faults, tabbed: set[int]) -> Node | None:
    """The document of a spec's lines, with broken lines replaced; None if there is none.

    `tabbed`: lines with a fault that is reported already, so that they get no other.
    """
    return _Repair(lines, label, faults, tabbed).compose()


def dashes(line: str) -> str:
    """The beginning of a line: its indentation, and the dashes of its items."""
    match = _DASHES.match(line)
    return match[0] if match else ""


class _Repair:
    """A spec's lines, and how much of them has been parsed."""

    def __init__(self, lines: list[str], label: str, faults: Faults, reported: set[int]) -> None:
        self._lines = lines
        self._label = label
        self._faults = faults
        self._reported = reported
        self._broken: set[int] = set()
        self._mended = 0
        self._parsed = 0
        self._explained = 0
        self._open = _most_open(lines)

    def compose(self) -> Node | None:
        while True:
            try:
                if self._open > MOST_OPEN_BRACKETS:  # the composer stops where they are nested too deep
                    return self._parse("\n".join(self._lines) + "\n", _FAST)
                return self._attempt()
            except ExcessError as error:
                self._faults.add(error.position, error.message)
                return None
            except yaml.MarkedYAMLError as error:
                if not self._mend(error) or self._open > MOST_OPEN_BRACKETS:
                    return None

    def _attempt(self) -> Node | None:
        """The document. Raises MarkedYAMLError at the first broken line. For a spec of few lines the error is
        PyYAML's own, whose messages and positions are better than libyaml's."""
        text = "\n".join(self._lines) + "\n"
        try:
            if hasattr(_FAST, "raw_parse"):
                _FAST(text).raw_parse()  # 30 times as fast as events are made, and as certain
                self._parsed += len(text)
            return self._parse(text, _FAST)
        except yaml.YAMLError as error:
            end = _end(error, text)
            self._parsed += end
            self._explained += end
            if self._explained > MOST_EXPLAINED_BYTES and isinstance(error, yaml.MarkedYAMLError):
                raise
        return self._parse(text, yaml.BaseLoader)

    def _parse(self, text: str, loader: Any) -> Node | None:
        composer = Composer(self._label, self._broken)
        node = composer.document(yaml.parse(text, Loader=loader))
        composer.report(self._faults)
        return node

    def _mend(self, error: yaml.MarkedYAMLError) -> bool:
        """Report a broken line and replace it. Answers whether to try again."""
        opened = (error.context or "").startswith(_OPENED) and error.context_mark
        mark = error.context_mark if opened else error.problem_mark
        line = min(mark.line, len(self._lines) - 1) if mark else 0
        self._mended += 1
        if self._mended > MOST_BROKEN_LINES or self._parsed > MOST_PARSED_BYTES:
            self._faults.add(
                Position(self._label, line + 1, 1),
                "YAML is broken in this line too; what follows is not read: mend the lines above first",
            )
            return False
        if line not in self._reported and (unspaced := self._unspaced(line, error)):
            at, match = unspaced
            message = f"a space is missing after '{match['key']}'"
            self._faults.add(Position(self._label, at + 1, match.start("key") + 1), message)
            self._lines[at] = f"{match[0]} {self._lines[at][match.end() :]}"
            return True
        if line not in self._reported:
            column = mark.column + 1 if mark else 1
            self._faults.add(Position(self._label, line + 1, column), _explain(error))
        elif not self._lines[line]:
            return False
        self._open += sum(map(self._lines[line].count, "]}"))  # at most: some may close nothing
        self._lines[line] = "" if line in self._reported else _skeleton(self._lines[line])
        self._reported.add(line)
        self._broken.add(line)
        return True

    def _unspaced(self, line: int, error: yaml.MarkedYAMLError) -> tuple[int, re.Match[str]] | None:
        """The position of a `key:value` that causes the fault, because YAML reads it as one word: in this
        line, or in the line before."""
        runs_on = (error.problem or "").startswith("mapping values") and line > 0
        for at in (line, line - 1) if runs_on else (line,):
            if match := _UNSPACED.match(self._lines[at]):
                return at, match
        return None


def _most_open(lines: Sequence[str]) -> int:
    """How many brackets are open at once, at most; those in strings count, too."""
    is_open, most = 0, 0
    for line in lines:
        if is_open + sum(map(line.count, "[{")) > most:
            steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(line))
            most = max(most, *accumulate(steps, initial=is_open))
        is_open = max(0, is_open + sum(map(line.count, "[{")) - sum(map(line.count, "]}")))
    return most


def _end(error: yaml.YAMLError, text: str) -> int:
    """How far the parser came."""
    mark = getattr(error, "problem_mark", None)
    return mark.index if mark and mark.index else len(text)


def _explain(error: yaml.MarkedYAMLError) -> str:
    if error.context == "while scanning a block scalar":
        return "YAML: '>' and '|' begin a block of text; put a value that begins with one in quotes"
    problem = (error.problem or "").replace("'<stream end>'", "the end of the file")
    if problem.startswith("expected <block end>") and problem.endswith(" start>'"):
        return "this line is indented as no line above it is"
    context = f"{error.context}, " if error.context else ""
    return f"YAML: {context}{problem}"


def _skeleton(line: str) -> str:
    """The line with its dashes and its key but without its value, so that the lines after it keep their
    place."""
    item = dashes(line)
    if key := _KEY.match(line, len(item)):
        return f"{item}{key[0]} {UNREADABLE}"
    return f"{item}{UNREADABLE}" if item.strip() else ""
