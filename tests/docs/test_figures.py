"""Tables of measurements on the pages say what the committed records say."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks/results"


Row: TypeAlias = dict[str, str]


def table(page: Path, head: str) -> list[Row]:
    """The rows of the table whose first line begins so, each by the names of its columns."""
    _, begin, rest = f"\n{page.read_text(encoding='utf-8')}".partition(f"\n{head}")
    assert begin, f"{page} has no table {head}"
    columns, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in f"{head}{rest}".partition("\n\n")[0].splitlines()
    ]
    assert len(rows) > 2
    assert len(set(columns)) == len(columns)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def record(name: str, head: str = "| m |") -> list[Row]:
    return table(RESULTS / f"{name}.md", head)


def said(name: str, key: str) -> str:
    """What the head of a record says."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    (value,) = re.findall(rf"^- {re.escape(key)}: (.*)$", text, re.MULTILINE)
    return str(value)


def number(cell: str) -> float:
    """Of a cell such as `1,172`, `[1.072](x.md)` or `94 %`."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
    return float(text.replace(",", "").removesuffix(" %"))


def same(cell: str, value: float) -> bool:
    """Whether a cell is the value, as precisely as it is written; a half may be rounded either way."""
    digits = len(re.sub(r"[^\d.]", "", re.sub(r"\]\(.*", "", cell)).partition(".")[2])
    return abs(number(cell) - value) <= 0.501 * 10**-digits


def alike(cell: str, recorded: str) -> bool:
    """Whether a page's cell is the record's, which may be more precise."""
    return same(cell, number(recorded.replace("%", " %")))


@pytest.mark.parametrize(
    "row", table(DOCS / "hopper.md", "| problems | type | mean |"), ids=lambda row: row["mean"]
)
def test_dense_products(row: Row) -> None:
    (name,) = re.findall(r"results/(\w+)\.md", row["mean"])
    assert {"BF16": "bf16", "FP16": "fp16", "FP8": "fp8"}[row["type"]] in name
    ratios = [float(one["ratio"]) for one in record(name, "| layer |" if "yaml" in name else "| m |")]
    assert alike(row["mean"], said(name, "geomean"))
    assert float(said(name, "geomean")) == pytest.approx(geomean(ratios), abs=2e-4)
    assert alike(row["least"], said(name, "minimum"))
    assert float(said(name, "minimum")) == pytest.approx(min(ratios), abs=6e-4)
    # The table's 0.950 may be a little less.
    most, least = (sum(ratio > limit for ratio in ratios) / len(ratios) for limit in (0.9495, 0.9505))
    assert least <= number(row["at 0.95 or more"]) / 100 <= most
    if "yaml" not in name:
        assert same(row["at 0.95 or more"], 100 * float(said(name, "share at 0.95")))


KINDS = {
    "dense FP8": "dense_fp8", "contiguous FP8": "contiguous_fp8", "masked FP8": "masked_fp8",
    "along k FP8": "k_grouped_fp8", "gradients FP8": "dense_fp8_gradient",
    "contiguous BF16": "contiguous_bf16", "masked BF16": "masked_bf16", "along k BF16": "k_grouped_bf16",
}  # fmt: skip


def test_grouped_products() -> None:
    rows = record("grouped_vs_deepgemm", "| kind | shape | us |")
    pages = {
        row["products"].partition(" (")[0]: row for row in table(DOCS / "grouped.md", "| products | shapes |")
    }
    assert set(pages) == {*KINDS, "of these with 4,096 rows"}
    for words, row in pages.items():
        kind = KINDS.get(words, "dense_fp8")
        some = [one for one in rows if one["kind"] == kind and (words in KINDS or one["shape"][:4] == "4096")]
        ratios = [float(one["ratio"]) for one in some]
        assert int(row["shapes"]) == len(ratios)
        assert same(row["mean"], geomean(ratios)), words
        assert same(row["least"], min(ratios)), words


@pytest.mark.parametrize(
    "row",
    table(DOCS / "hc_prenorm.md", "| m, k | splits |"),
    ids=lambda row: f"{row['m, k']} {row['splits']}",
)
def test_prenorm(row: Row) -> None:
    m, k = row["m, k"].split(", ")
    expected = (m, "24", k, "1" if row["splits"] == "none" else row["splits"])
    (one,) = (one for one in record("prenorm") if (one["m"], one["n"], one["k"], one["splits"]) == expected)
    assert alike(row["us"], one["us"])
    assert alike(row["TB/s"], one["TB/s"])
    assert alike(row["of the copy's bandwidth"], one["of a copy"])
    assert alike(row["DeepGEMM's time over ours"], one["over DeepGEMM"])


@pytest.mark.parametrize(
    "row",
    table(DOCS / "mqa_logits.md", "| ranges: queries x keys |"),
    ids=lambda row: row["ranges: queries x keys"],
)
def test_logits_of_ranges(row: Row) -> None:
    extents = row["ranges: queries x keys"]
    last = "of 4.25" if "earlier" in extents else "of a copy"  # a column of that run's table alone
    head = f"| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | {last} |"
    queries, keys = re.findall(r"\d+", extents)[:2]
    (one,) = (
        one for one in record("mqa_logits", head)
        if (one["form"], one["queries"], one["keys"], one["logits"]) == ("ragged", queries, keys, "f32")
    )  # fmt: skip
    assert alike(row["TFLOP/s"], one["TFLOP/s"])
    assert alike(row["DeepGEMM's time over ours"], one["DeepGEMM"])


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


@pytest.mark.parametrize("page", ["README.md", "docs/deep_gemm.md", "benchmarks/results/README.md"])
def test_einsums_of_bf16(page: str) -> None:
    """Every page says the same of them."""
    lines = (RESULTS / "grouped_vs_deepgemm_einsum.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| einsum " in line]
    shapes = [row for row in rows if "=" in row[1] and row[3]]
    ratios = [float(row[5]) for row in shapes]
    text = (ROOT / page).read_text(encoding="utf-8")
    (told,) = re.findall(r"BF16 einsums(?: are at)?:? (.*?0\.\d\d at least)", text)
    assert len(ratios) == 29
    numbers = re.findall(r"\b[01]\.\d\d\b", re.sub(r"\]\([^)]*\)", "", told))
    assert numbers == [f"{geomean(ratios):.2f}", f"{min(ratios):.2f}"]


def speeds(name: str, row: Row) -> list[float]:
    """The speeds of a record's rows that a row of the README is about."""
    if name == "mqa_logits":
        form = "paged" if "pages" in row["products"] else "ragged"
        head = "| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | of a copy |"
        return [float(one["DeepGEMM"]) for one in record(name, head) if one["form"] == form]
    if name == "grouped_vs_deepgemm":
        products = row["products"].removesuffix(" groups").replace("groups along", "along")
        kind = KINDS[f"{products.partition(' ')[0] if 'along' not in products else products} {row['type']}"]
        rows = record(name, "| kind | shape | us |")
        return [float(one["ratio"]) for one in rows if one["kind"] == kind]
    return [float(one["ratio"]) for one in record(name, "| layer |" if "yaml" in name else "| m |")]


def readme_rows() -> list[Row]:
    """The rows of the README's table of speeds, each with its products."""
    rows = table(ROOT / "README.md", "| products | type | peer |")
    for above, row in pairwise(rows):
        row["products"] = row["products"] or above["products"]
    return rows


@pytest.mark.parametrize("row", readme_rows(), ids=lambda row: f"{row['products'][:30]} {row['type']}")
def test_speeds_of_the_readme(row: Row) -> None:
    (name,) = re.findall(r"results/(\w+)\.md", row["mean speed"])
    if "gemm_" in name:
        assert row["type"].lower() in name
    values = speeds(name, row)
    assert len(values) == int(row["problems"])
    # A record's speeds are rounded themselves.
    assert number(row["mean speed"]) == pytest.approx(
        geomean(values), abs=6e-3 if name == "mqa_logits" else 1e-3
    )
    assert number(row["worst"]) == pytest.approx(min(values), abs=6e-4)


def speed(rows: list[Row], column: str) -> float:
    return geomean([float(row[column]) for row in rows])


def test_nvfp4_of_few_and_of_128_rows() -> None:
    """The README leaves out no row of the record."""
    rows = record("blockscaled_llama8b_nvfp4", "| layer |")
    few, many = ([row for row in rows if (row["m"] == "128") == is_many] for is_many in (False, True))
    assert {row["m"] for row in few} == {"1", "8", "16", "32", "64"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^- NVFP4 products of (.*)$", text, re.MULTILINE)
    assert told.startswith(
        f"1 to 64 rows: {speed(few, 'over dequantise + mm'):.1f} times as quick as dequantising and "
        f"multiplying, over {len(few)} problems."
    )
    assert f" 128 rows it is {speed(many, 'over dequantise + mm'):.1f} times" in told
    assert f" and {speed(many, 'over mm alone'):.2f} of the speed" in told
    assert f"({len(many)} problems)" in told


def test_numbers_are_compared_as_they_are_written() -> None:
    assert same("[1.07](x_1.md)", 1.0749)
    assert not same("1.07", 1.076)
    assert same("1,172", 1171.6)
    assert not same("94 %", 95)
