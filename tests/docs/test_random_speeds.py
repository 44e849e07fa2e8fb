"""Speeds of random products, warm and cold, on pages are those of the committed records."""

from __future__ import annotations

import re

import pytest
from figures import DOCS, ROOT, Row, alike, record, same, table

PAGE = DOCS / "speed.md"
SHORT_FORMS = "## With short forms"
LATER_TREES = "## With trees that 705 more problems taught"
# How a row of speed.md begins: its record, the heading before the table there, and the kind in that table.
SOURCES = {
    "[FP8, scales of blocks]": ("random_scaled", SHORT_FORMS, "dense"),
    "the same, contiguous groups": ("random_scaled", SHORT_FORMS, "contiguous"),
    "the same, masked groups": ("random_scaled", SHORT_FORMS, "masked"),
    "[later trees, FP8, scales of blocks]": ("random_scaled", LATER_TREES, "dense"),
    "later trees, contiguous groups": ("random_scaled", LATER_TREES, "contiguous"),
    "later trees, masked groups": ("random_scaled", LATER_TREES, "masked"),
    "[FP8, groups along k]": ("random_scaled", "## Groups along k with a form", "along k"),
    "[BF16 einsums]": ("random_einsum", "", "einsum"),
    "[BF16 sums over a batch]": ("random_einsum", "## Sums over a batch", ""),
    "[BF16, n and k multiples of 8]": ("random_wide", "", "BF16"),
    "[FP16]": ("random_wide", "", "FP16"),
}


def measures(name: str, after: str, kind: str) -> dict[str, Row]:
    """The rows `warm` and `cold` of a kind of products in a record."""
    heads = {"random_einsum": "| kind | measure |", "random_wide": "| type | measure |"}
    head = heads.get(name, "| products | measure |") if kind else "| measure | count |"
    rows = record(name, head, after)
    return {row["measure"]: row for row in rows if not kind or next(iter(row.values())) == kind}


@pytest.mark.parametrize("start", SOURCES)
def test_warm_and_cold(start: str) -> None:
    (row,) = (
        row for row in table(PAGE, "| products | peer | problems |") if row["products"].startswith(start)
    )
    recorded = measures(*SOURCES[start])
    warm, cold = recorded["warm"], recorded["cold"]
    mean = "geomean" if "geomean" in warm else "mean"
    assert row["problems"] == warm["count"] == cold["count"]
    assert (row["warm"], row["cold"]) == (warm[mean], cold[mean])
    assert row["worst, warm and cold"] == f"{warm['least']}, {cold['least']}"


def test_wide_products_by_later_trees() -> None:
    """speed.md and selection.md have the rows of random_wide_cold.md."""
    recorded = {row["type"]: row for row in record("random_wide_cold", "| type | count |")}
    products = {row["products"]: row for row in table(PAGE, "| products | peer | problems |")}
    wide = table(DOCS / "selection.md", "| wide draws | seed | count |")
    assert [row["wide draws"] for row in wide] == list(recorded) == ["BF16", "FP16"]
    for row in wide:
        kind = row["wide draws"]
        expected = recorded[kind]
        (on_page,) = (cells for start, cells in products.items() if f"[later trees, {kind}, wide]" in start)
        assert row["count"] == on_page["problems"] == expected["count"]
        assert row["mean speed"] == on_page["cold"] == expected["geomean"]
        assert row["least"] == on_page["worst, warm and cold"] == expected["least"]
        assert row["at 0.95"] == expected["share at 0.95"]


def test_scaled_products_by_later_trees() -> None:
    rows = table(DOCS / "selection.md", "| kind | mean speed | least |")
    assert [row["kind"] for row in rows] == ["dense", "contiguous", "masked"]
    for row in rows:
        cold = measures("random_scaled", LATER_TREES, row["kind"])["cold"]
        assert (row["mean speed"], row["least"]) == (cold["mean"], cold["least"])
        assert row["at 0.95"] == cold["share at 0.95"]


def test_scaled_products_by_deepgemm_s_time() -> None:
    by_time = record("random_scaled", "| products | below 6 us |", SHORT_FORMS)
    recorded = {row["products"]: row for row in by_time}
    rows = table(PAGE, "| FP8 products | below 6 us |")
    assert len(rows) == len(recorded) == 3
    for row in rows:
        expected = recorded[row.pop("FP8 products").removesuffix(" groups")]
        for column, cell in row.items():
            assert cell == expected[column].partition(" ")[0]


def test_random_products_of_the_readme() -> None:
    rows = {row["products"]: row for row in table(ROOT / "README.md", "| products | peer | problems |")}
    wide = {row["type"]: row for row in record("random_wide_cold", "| type | count |")}["BF16"]
    assert rows["BF16"]["problems"] == wide["count"]
    assert alike(rows["BF16"]["mean speed"], wide["geomean"])
    assert alike(rows["BF16"]["worst"], wide["least"])
    scaled, dense = rows["FP8 with scales of blocks"], measures("random_scaled", SHORT_FORMS, "dense")["cold"]
    assert scaled["problems"] == dense["count"]
    assert alike(scaled["mean speed"], dense["mean"])
    assert alike(scaled["worst"], dense["least"])


def test_the_comparison_with_deepgemm_s_stacks() -> None:
    """comparison.md and speed.md say how many stacks are slower, and by how much at most."""
    summary = next(
        row for row in record("stacks_fp8", "| dtype | variant | count |") if row["variant"] == "model"
    )
    slower = round((1 - float(summary["share at 1"])) * int(summary["count"]))
    assert slower == 2
    behind = 100 * (1 - float(summary["least"]))
    comparison, speed = (
        " ".join((DOCS / name).read_text("utf-8").split()) for name in ("comparison.md", "speed.md")
    )
    (mean, most) = re.findall(
        r"has ([\d.]+) times DeepGEMM's speed, and is slower in two of 64 stacks, by at most ([\d.]+ %)",
        comparison,
    )[0]
    assert alike(mean, summary["geomean"])
    assert same(most, behind)
    assert f"slower than DeepGEMM in two of {summary['count']} stacks, by at most {behind:.1f} %" in speed


def test_the_comparison_with_humming_s_fp8_activations() -> None:
    """comparison.md gives the least and the largest mean of packed_speed.md's tables."""
    page = DOCS / "packed_speed.md"
    chosen = [
        float(row["speed beside Humming"])
        for row in table(page, "| format | rows | speed beside Humming |")[3:]
    ]
    fast = [float(row["speed"]) for row in table(page, "| weights | rows | problems | speed | least |")[3:]]
    experts = {
        row["activations, format"]: re.findall(r"\[([\d.]+)\]", row["speed beside Humming"])[0]
        for row in table(page, "| activations, format | tokens |")
    }
    text = " ".join((DOCS / "comparison.md").read_text(encoding="utf-8").split())
    (figures,) = re.findall(
        r"With MXFP4 it has ([\d.]+) to ([\d.]+) of Humming's speed; ([\d.]+) to ([\d.]+) with `fast_accum`"
        r".*?"
        r"Experts have ([\d.]+) \(INT4\) and ([\d.]+) \(MXFP4\), and ([\d.]+) with",
        text,
    )
    expected = [
        min(chosen), max(chosen), min(fast), max(fast),
        *(float(experts[f"FP8, {name}"]) for name in ("INT4", "MXFP4", "MXFP4 with `fast_accum`")),
    ]  # fmt: skip
    for figure, value in zip(figures, expected, strict=True):
        assert same(figure, value)
