"""docs/selection.md counts the problems that taught the trees."""

from __future__ import annotations

import bz2
import csv
import re

from figures import DOCS, ROOT, table


def test_problems_that_taught_the_trees() -> None:
    """selection.md says how many there are in the committed files of times."""
    data = ROOT / "tests/runtime/data"
    names = ("lean", "layout", "wide", "split", "cold")
    texts = [bz2.decompress((data / f"h200_{name}_times.csv.bz2").read_bytes()).decode() for name in names]
    dense = [sum(row["tactic"] == "peer" for row in csv.DictReader(text.splitlines())) for text in texts]
    rows = {row["trees of"].split("`")[1]: row for row in table(DOCS / "selection.md", "| trees of |")}
    lessons = {name: int(re.sub(r"\D", "", row["learnt from"])) for name, row in rows.items()}
    assert lessons.pop("gemm") == sum(dense)
    drawn = [row["problems"] for row in table(DOCS / "selection.md", "| problems | how they were drawn |")]
    assert [int(cell.replace(",", "")) for cell in drawn][2:] == dense[1:]
    files = (("grouped_gemm", "cold_grouped"), ("mixed_gemm", "mixed"), ("mixed_grouped_gemm", "expert"))
    for family, name in files:
        text = bz2.decompress((data / f"h200_{name}_times.jsonl.bz2").read_bytes()).decode()
        assert lessons.pop(family) == len(text.splitlines())
    assert not lessons
