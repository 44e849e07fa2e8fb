"""Docstrings have the form from which the reference is made: one entry to a line, further lines indented."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "runtime/tilewright").rglob("*.py"))
SECTIONS = ("Args:", "Attributes:", "Raises:")
ENTRY = re.compile(r"    [\w., *`]+: ?")  # of several names, too


def misplaced(docstring: str) -> Iterator[str]:
    """Lines of a section that stand where an entry begins, and begin none. The reference leaves them out."""
    within = False
    for line in docstring.splitlines():
        if line and not line.startswith(" "):
            within = line in SECTIONS
        elif within and re.match(r"    \S", line) and not ENTRY.match(line):
            yield line


def test_every_line_of_a_section_belongs_to_an_entry() -> None:
    kinds = (ast.FunctionDef, ast.ClassDef)
    actual, sections = [], 0
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
                sections += docstring.count("Args:")
                actual += [f"{file.relative_to(ROOT)}: {node.name}: {line}" for line in misplaced(docstring)]
    assert actual == []
    assert sections > 40


@pytest.mark.parametrize(
    ("docstring", "lines"),
    [
        ("Adds.\n\nArgs:\n    a: one number\n    of two.\n", ["    of two."]),
        ("Adds.\n\nArgs:\n    a, b: numbers\n        of one type.\n\nReturns:\n    The sum.\n", []),
    ],
)
def test_a_misplaced_line_is_found(docstring: str, lines: list[str]) -> None:
    assert list(misplaced(docstring)) == lines
