"""Modules of tests have names of their own: pytest imports a module by its name, and stops at another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.stem for path in TESTS.rglob("*.py") if path.stem != "conftest")
    assert [name for name, count in names.items() if count > 1] == []
