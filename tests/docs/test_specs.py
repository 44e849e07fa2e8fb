"""docs/spec_fields.md has every field of every family, with the values and the default that the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from tilewright_generator import families
from tilewright_generator.fields import Field, fields_of

PAGE = (Path(__file__).parents[2] / "docs/spec_fields.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## Fields of `(\w+)`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(family: str) -> dict[str, tuple[str, str]]:
    """What the page says of a family's fields: values, default."""
    actual = {}
    for line in SECTIONS[family].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            actual |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), (cells[1], cells[2]))
    return actual


def default(field: Field) -> str:
    value = field.default
    if field.required:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def literals(hint: Any) -> Iterator[str]:
    """The words that a field may be, wherever in its annotation they stand."""
    if get_origin(hint) is Literal:
        yield from (str(value).lower() if isinstance(value, bool) else str(value) for value in get_args(hint))
    else:
        for value in get_args(hint):
            yield from literals(value)


def told(values: str) -> set[str]:
    """Words and numbers of a cell; `1 to 4` stands for all between."""
    actual = set(re.findall(r"[\w.]+", values)) - {"or", "to"}
    for least, most in re.findall(r"\b(\d+) to (\d+)", values):
        actual |= set(map(str, range(int(least), int(most) + 1)))
    return actual


@pytest.mark.parametrize("family", SECTIONS)
def test_fields_are_those_of_the_code(family: str) -> None:
    fields = fields_of(families.get(family))
    listed = rows(family)
    assert set(listed) == set(fields)
    assert {name: text.strip('`"') for name, (_, text) in listed.items()} == {
        name: default(field) for name, field in fields.items()
    }


@pytest.mark.parametrize("family", SECTIONS)
def test_values_are_those_of_the_code(family: str) -> None:
    hints = get_type_hints(families.get(family).config, include_extras=True)
    for name, (values, _) in rows(family).items():
        expected = set(literals(hints[name]))
        if expected - {"auto", "dynamic"}:
            assert told(values) == expected, f"{family}: {name}"


def test_every_family_with_fields_of_its_own_has_a_table() -> None:
    several = re.findall(r"^## Fields of (`.*)$", PAGE, re.MULTILINE)
    named = {name for title in several for name in re.findall(r"`(\w+)`", title)}
    assert named == {name for name in families.names() if name != "tiny"}
    assert len(SECTIONS) > 5
