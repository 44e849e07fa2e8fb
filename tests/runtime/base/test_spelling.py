"""Tables and texts for people."""

from __future__ import annotations

import sys

import pytest

from tilewright.base.spelling import did_you_mean, listed, nearest, text
from tilewright.base.tables import table, width, wrapped

ROWS = [("kernel", "built", "is"), ("short", "yes", "a small one"), ("b", "no", "another")]


def test_what_fits_stands_on_one_line() -> None:
    assert table(ROWS) == ["  kernel  built  is", "  short   yes    a small one", "  b       no     another"]


def test_long_names_stand_above_their_columns() -> None:
    name = "n" * 70
    assert table([*ROWS, (name, "no", "last")]) == [
        "  kernel", "      built  is",
        "  short", "      yes    a small one",
        "  b", "      no     another",
        f"  {name}", "      no     last",
    ]  # fmt: skip


def test_a_long_text_is_broken_beside_its_columns_where_these_leave_room() -> None:
    words = " ".join(["word"] * 20)
    actual = table([("kernel", "built", "is"), ("k", "no", words)], indent="")
    assert actual[:2] == ["kernel  built  is", "k       no     " + " ".join(["word"] * 13)]
    assert actual[2] == " " * 15 + " ".join(["word"] * 7)
    assert max(map(len, actual)) <= 80


def test_a_long_text_stands_under_the_columns_where_these_leave_none() -> None:
    words, name = " ".join(["word"] * 20), "n" * 36
    actual = table([("kernel", "built", "is"), (name, "no", words)], indent="")
    assert actual[:4] == ["kernel", "    built", "    is", name]
    assert actual[4] == "    no"
    assert actual[5] == "    " + " ".join(["word"] * 15)
    assert " ".join(line.strip() for line in actual[5:]) == words
    assert max(map(len, actual)) <= 80


def test_of_many_names_those_that_begin_alike_are_compared() -> None:
    names = [f"{letter}_{n}" for letter in "abcdefghij" for n in range(400)]
    assert nearest("j_x150", names) == "j_150"


class Terminal:
    """Standard output, as far as its width is asked for."""

    def isatty(self) -> bool:
        return True


def test_tables_fill_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("n" * 70, "no", "is what it is")
    monkeypatch.setenv("COLUMNS", "120")
    assert len(table([row])) == 2, "80 columns where output is no terminal, whatever COLUMNS says"
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Terminal())
        for columns, expected in ((120, 120), (20, 60), (1000, 160)):
            patched.setenv("COLUMNS", str(columns))
            assert width() == expected
        assert table([row]) == [f"  {row[0]}  no  is what it is"]
        patched.setattr(sys, "stdout", None)
        assert width() == 80


def test_columns_that_are_too_wide_are_not_aligned() -> None:
    assert table([("a", "v" * 60, "w" * 30, "text"), ("b", "v", "w", "text")], indent="") == [
        "a", f"    {'v' * 60}", f"    {'w' * 30}", "    text", "b", "    v  w  text",
    ]  # fmt: skip


def test_wrapped_breaks_at_spaces_alone() -> None:
    name = "gemm-with-hyphens" * 6
    assert wrapped(f"the kernel {name} is long", "", "  ") == ["the kernel", f"  {name}", "  is long"]
    assert wrapped("one two", "> ") == ["> one two"]


def test_values_and_lists() -> None:
    assert [text(value) for value in (True, [128, 64], "bf16", 3)] == ["true", "128x64", "bf16", "3"]
    assert listed([str(n) for n in range(14)]).endswith("11, and 2 more")


def test_what_may_have_been_meant() -> None:
    types = ("bf16", "f16", "e4m3", "e5m2", "s8")
    meant = {"fp8": "e4m3", "FP8": "e4m3", "int8": "s8", "bfloat16": "bf16", "fp16": "f16", "E5M2": "e5m2"}
    for wrong, right in meant.items():
        assert did_you_mean(wrong, types) == f"; did you mean {right!r}?"
    assert did_you_mean("fp8", ("nvfp4", "mxfp8")) == "; did you mean 'mxfp8'?"
    assert did_you_mean("xyz", types) == ""
