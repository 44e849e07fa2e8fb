"""Where a merge left its marks in a text."""

from __future__ import annotations

import pytest

from tilewright_generator import conflicts

WHOLE = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> branch\nd\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WHOLE, 2),
        (WHOLE.replace("\n", "\r\n"), 2),
        ("a\nb\n=======\nc\n>>>>>>> branch\n", 5),  # half resolved
        ("<<<<<<< HEAD\nb\n", 1),
        ("a\r\n<<<<<<<\r\nb\r\n", 2),  # a side that has no name
        ("a heading\n=======\n", None),
        ("<<<<<<<<< a\n>>>>>>>>> b\n", None),
        ("  <<<<<<< HEAD\n", None),
        ("", None),
    ],
)
def test_the_first_line_of_a_conflict(text: str, line: int | None) -> None:
    assert conflicts.first(text) == line
    assert conflicts.marked(text.encode()) is (line is not None)
