"""Tables of pages and of records, and numbers as pages write them."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks/results"
Row: TypeAlias = dict[str, str]


def table(page: Path, head: str, after: str = "") -> list[Row]:
    """The rows of the first table after a text whose first line begins so, by the names of its columns."""
    text = "\n" + page.read_text(encoding="utf-8")
    text = text[text.index(after) :]
    _, begin, rest = text.partition(f"\n{head}")
    assert begin, f"{page} has no table {head}"
    columns, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in f"{head}{rest}".partition("\n\n")[0].splitlines()
    ]
    assert len(rows) >= 2
    assert len(set(columns)) == len(columns)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def merged(page: Path, head: str) -> list[Row]:
    """The rows of a table in which an empty first cell stands for the one above it."""
    rows = table(page, head)
    first = next(iter(rows[0]))
    for above, row in pairwise(rows):
        row[first] = row[first] or above[first]
    return rows


def record(name: str, head: str = "| m |", after: str = "") -> list[Row]:
    return table(RESULTS / f"{name}.md", head, after)


def said(name: str, key: str) -> str:
    """What the head of a record says."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    (value,) = re.findall(rf"^- {re.escape(key)}: (.*)$", text, re.MULTILINE)
    return str(value)


def number(cell: str) -> float:
    """The number in a cell such as `1,172`, `[1.072](x.md)` or `94 %`."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
    return float(text.replace(",", "").removesuffix(" %"))


def same(cell: str, value: float) -> bool:
    """Whether a cell is the value, as precisely as it is written; a half may be rounded either way."""
    digits = len(re.sub(r"[^\d.]", "", re.sub(r"\]\(.*", "", cell)).partition(".")[2])
    return abs(number(cell) - value) <= 0.501 * 10**-digits


def alike(cell: str, recorded: str) -> bool:
    """Whether a page's cell is the record's, which may be more precise."""
    return same(cell, number(recorded.replace("%", " %")))


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
