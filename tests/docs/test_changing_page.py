"""docs/changing.md says which targets each family has."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.declarations import catalog
from tilewright_generator import families
from tilewright_generator.fields import fields_of

PAGE = (Path(__file__).resolve().parents[2] / "docs/changing.md").read_text(encoding="utf-8")


def targets(family: str) -> str:
    return fields_of(families.get(family))["arch"].values


def test_a_row_names_the_families_that_have_the_same_targets() -> None:
    table = PAGE.partition("| family | targets |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert sorted(name for row in rows for name in row) == sorted(catalog.names())
    of_rows = [{targets(name) for name in row} for row in rows]
    assert all(len(row) == 1 for row in of_rows)
    assert len(set.union(*of_rows)) == len(rows)
