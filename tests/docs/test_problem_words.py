"""The table of docs/commands.md names every word in which a family's problems are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.declarations import catalog
from tilewright.declarations.vocabulary import Choice, Words

ROOT = Path(__file__).resolve().parents[2]
HEAD = "| family | types, a word without `=` | extents | others |\n|---|---|---|---|\n"
ELSEWHERE = {"weight_format"}  # words whose values the table lacks: packed_weights.md has them
EARLIER = {"d": "bf16", "x": "bf16", "fusion": "none", "direction": "quantize", "grouping": "none"}
USUAL = {"none", "tn", "same", "quantize"}  # usual values


def rows() -> dict[str, list[str]]:
    """The cells of each family, behind its name."""
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    table = page.partition(HEAD)[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return {family.strip("` |"): rest for family, *rest in cells}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def values(words: Words[object], word: Choice) -> set[str]:
    """All values that a choice has, for any types and the values of earlier words."""
    legal = (fields for fields in words.types.fields.values() if not isinstance(fields, str))
    return {value for fields in legal for value in word.possible({**EARLIER, **fields})}


def test_every_family_has_a_row() -> None:
    assert rows().keys() == set(catalog.names())


@pytest.mark.parametrize("family", catalog.names())
def test_a_row_names_every_word(family: str) -> None:
    words: Words[object] = catalog.family_module(family, "vocabulary").WORDS
    types, extents, words_of_row = map(quoted, rows()[family])
    named = [words.types.fields[name] for name in types if name in words.types.fields]
    for name, fields in words.types.fields.items():  # some have several names
        assert isinstance(fields, str) or "x" in name or fields in named, name
    assert extents == {extent.name for extent in words.extents}
    names = {word.name for word in words.others if word.field is not None}
    assert names <= words_of_row
    for word in words.others:
        if isinstance(word, Choice) and word.field is not None and word.name not in ELSEWHERE:
            assert values(words, word) - USUAL <= words_of_row, word.name
