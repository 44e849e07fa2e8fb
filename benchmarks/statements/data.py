"""Reads the statements of pull requests and projects: a YAML file each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

FOLDER = Path(__file__).parent
STATUSES = {"met": "met", "part": "in part", "not": "not met", "none": "not applicable"}
_KEYS = {"statement", "status", "run", "exit", "says", "test", "reason"}


class Row(NamedTuple):
    """A statement, and what shows its status: a command and what it says, or a test or another file."""

    statement: str
    status: str
    run: str = ""  # words after `tilewright`
    exit: int = 0
    says: str = ""
    test: str = ""  # a path, with `::` and a function's name or without
    reason: str = ""


class Statements(NamedTuple):
    """The statements of a pull request, or of another project's functions on a GPU."""

    path: Path
    title: str
    source: str  # the text of the link to the url
    url: str
    about: str
    rows: tuple[Row, ...]

    def counts(self) -> dict[str, int]:
        """The rows of each status."""
        return {status: sum(row.status == status for row in self.rows) for status in STATUSES}


def read(path: Path) -> Statements:
    """Reads a file. Raises ValueError that names the row where one is not of the form."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows = []
    for number, fields in enumerate(content["rows"], 1):
        if unknown := fields.keys() - _KEYS:
            raise ValueError(f"{path.name}, row {number}: unknown keys {sorted(unknown)}")
        row = Row(**fields)
        if row.status not in STATUSES:
            raise ValueError(
                f"{path.name}, row {number}: status {row.status!r}; expected {', '.join(STATUSES)}"
            )
        if bool(row.run) == bool(row.test) or bool(row.run) != bool(row.says):
            raise ValueError(f"{path.name}, row {number}: expected `run` and `says`, or `test`")
        if row.status != "met" and not row.reason:
            raise ValueError(f"{path.name}, row {number}: expected a reason for {STATUSES[row.status]}")
        rows.append(row)
    source = content.get("source", "The pull request")
    return Statements(path, content["title"], source, content["url"], content["about"], tuple(rows))


def read_all() -> list[Statements]:
    """The statements of all files, in the order of their names."""
    return [read(path) for path in sorted(FOLDER.glob("*.yaml"))]
