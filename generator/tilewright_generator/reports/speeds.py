"""Speeds beside a peer's by the committed records: benchmarks/results/speeds.yaml names their tables.

A speed is the peer's time divided by ours: above 1 our kernel is the faster one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tilewright.base import reading
from tilewright.base.schema import Array, Boolean, Map, Object, String, Union, fields
from tilewright.base.yaml_files import load_yaml
from tilewright.errors import UnreadableFileError

RESULTS = Path("benchmarks/results")
LIST = "speeds.yaml"

_TEXTS = Union((String(), Array(String())))
_ENTRY = Object(
    {**fields(("products", "type", "peer", "ratio"), String()), "record": String(r"\w+", "a record's name")},
    optional={"where": Map(_TEXTS), "chart": Boolean(), "note": String()},
)
_LIST = Object({**fields(("title", "subtitle"), String()), "series": Array(_ENTRY)})

Row = dict[str, str]


@dataclass(frozen=True)
class Problem:
    """A problem of a record's table."""

    text: str
    """The cells that say which problem it is."""
    speed: float


@dataclass(frozen=True)
class Series:
    """The problems of one row of the list."""

    products: str
    type: str
    peer: str
    record: Path
    """From the project's folder."""
    problems: tuple[Problem, ...]
    in_chart: bool
    note: str

    @property
    def speeds(self) -> list[float]:
        return [problem.speed for problem in self.problems]

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return math.exp(sum(map(math.log, self.speeds)) / len(self.speeds))

    @property
    def worst(self) -> float:
        return min(self.speeds)


@dataclass(frozen=True)
class Speeds:
    """All series of a project."""

    title: str
    subtitle: str
    series: tuple[Series, ...]


def read(root: Path) -> Speeds | None:
    """All series of a project, in the order of its list; None if it has no list.

    Raises UnreadableFileError if the list or a record has another form.
    """
    path = root / RESULTS / LIST
    try:
        content = load_yaml(path)
    except FileNotFoundError:
        return None
    reading.check(path, content, _LIST)
    series = tuple(_series(root, entry) for entry in content["series"])
    return Speeds(content["title"], content["subtitle"], series)


def _series(root: Path, entry: Mapping[str, Any]) -> Series:
    record = RESULTS / f"{entry['record']}.md"
    where = {name: _globs(globs) for name, globs in entry.get("where", {}).items()}
    problems = tuple(_problems(root / record, entry["ratio"], where))
    if not problems:
        columns = ", ".join([*where, entry["ratio"]])
        raise UnreadableFileError(
            root / record, f"{LIST} names rows of a table with {columns}: there is none"
        )
    return Series(
        products=entry["products"],
        type=entry["type"],
        peer=entry["peer"],
        record=record,
        problems=problems,
        in_chart=entry.get("chart", False),
        note=entry.get("note", ""),
    )


def _globs(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _problems(record: Path, ratio: str, where: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """The rows of the first table that has all columns, if they meet the globs and have a ratio."""
    try:
        text = reading.text(record)
    except FileNotFoundError:
        raise UnreadableFileError(record, "no such file") from None
    table = next((rows for rows in tables(text) if {ratio, *where} <= rows[0].keys()), [])
    for row in table:
        if row[ratio] and all(_meets(row[name], globs) for name, globs in where.items()):
            yield Problem(_text(row), _number(record, row[ratio]))


def _meets(cell: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(cell, glob) for glob in globs)


def _number(record: Path, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise UnreadableFileError(record, f"expected a ratio above 0, got {cell!r}")
    return value


def _text(row: Row) -> str:
    """The cells before the first time, with their column if they are numbers: `llama-3.1-8b qkv, m 1, n
    6144`."""
    words: list[str] = []
    for name, cell in row.items():
        if name in ("us", "logits"):
            break
        words += [f"{name} {cell}" if cell.isdigit() else cell] if cell else []
    return ", ".join(words)


def tables(text: str) -> Iterator[list[Row]]:
    """The Markdown tables of a page that have rows, each as cells by the names of the columns."""
    lines = text.splitlines()
    for number in range(1, len(lines)):
        if not lines[number].startswith("|---"):
            continue
        columns = _cells(lines[number - 1])
        rows = []
        for line in lines[number + 1 :]:
            if not line.startswith("|"):
                break
            rows.append(dict(zip(columns, _cells(line), strict=False)))
        if rows:
            yield rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
