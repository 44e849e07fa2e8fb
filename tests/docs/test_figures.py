"""Tables of measurements on the pages say what the committed records say."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results"


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def table(page: str, head: str) -> list[list[str]]:
    """The rows of the table whose first line begins so."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n{head}")
    assert found, f"{page} has no table {head}"
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(rows) > 2
    return rows


def number(cell: str) -> float:
    """Of a cell such as `1,172`, `[1.072](x.md)` or `94 %`."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
    return float(text.replace(",", "").removesuffix(" %"))


def same(cell: str, value: float) -> bool:
    """Whether a cell is the value, as precisely as it is written; a half may be rounded either way."""
    digits = len(re.sub(r"[^\d.]", "", re.sub(r"\]\(.*", "", cell)).partition(".")[2])
    return abs(number(cell) - value) <= 0.501 * 10**-digits


@pytest.mark.parametrize("row", table("hopper.md", "| problems | type | mean |"), ids=lambda row: row[2])
def test_dense_products(row: list[str]) -> None:
    _, type, mean, least, share = row
    (name,) = re.findall(r"results/(\w+)\.md", mean)
    assert {"BF16": "bf16", "FP16": "fp16", "FP8": "fp8"}[type] in name
    found = record(name)
    ratios = [one["ratio"] for one in found["rows"]]
    assert same(mean, found["geomean"])
    assert same(least, found["minimum"])
    assert same(share, 100 * sum(ratio >= 0.95 for ratio in ratios) / len(ratios))


KINDS = {
    "dense FP8": "dense_fp8", "contiguous FP8": "contiguous_fp8", "masked FP8": "masked_fp8",
    "along k FP8": "k_grouped_fp8", "gradients FP8": "dense_fp8_gradient",
    "contiguous BF16": "contiguous_bf16", "masked BF16": "masked_bf16", "along k BF16": "k_grouped_bf16",
}  # fmt: skip


def test_grouped_products() -> None:
    rows = record("grouped_vs_deepgemm")["rows"]
    told = {words.partition(" (")[0]: rest for words, *rest in table("grouped.md", "| products | shapes |")}
    assert set(told) == {*KINDS, "of these with 4,096 rows"}
    for words, (shapes, mean, least) in told.items():
        kind = KINDS.get(words, "dense_fp8")
        some = [one for one in rows if one["kind"] == kind and (words in KINDS or one["shape"][:4] == "4096")]
        ratios = [one["ratio"] for one in some]
        assert int(shapes) == len(ratios)
        assert same(mean, math.exp(sum(map(math.log, ratios)) / len(ratios))), words
        assert same(least, min(ratios)), words


@pytest.mark.parametrize(
    "row", table("hc_prenorm.md", "| m, k | splits |"), ids=lambda row: f"{row[0]} {row[1]}"
)
def test_prenorm(row: list[str]) -> None:
    extents, splits, microseconds, rate, share, ratio = row
    m, k = map(int, extents.split(", "))
    wanted = (m, 24, k, 1 if splits == "none" else int(splits))
    (one,) = (
        one for one in record("prenorm")["rows"] if (one["m"], one["n"], one["k"], one["splits"]) == wanted
    )
    seconds, others = one["ours"], one["seconds"]
    assert same(microseconds, 1e6 * seconds)
    assert same(rate, 1e-12 * one["bytes"] / seconds)
    assert same(share, 100 * others["copy"] / seconds)
    assert same(ratio, others["deep_gemm"] / seconds)


@pytest.mark.parametrize("row", table("mqa_logits.md", "| ranges: queries x keys |"), ids=lambda row: row[0])
def test_logits_of_ranges(row: list[str]) -> None:
    extents, rate, ratio = row
    found = record("mqa_logits")
    some = found["rows of an earlier state" if "earlier" in extents else "rows"]
    queries, keys = map(int, re.findall(r"\d+", extents))
    (one,) = (
        one for one in some
        if (one["form"], one["queries"], one["keys"], one["d"], one["clean"])
        == ("ragged", queries, keys, "f32", False)
    )  # fmt: skip
    seconds = one["seconds"]["ours"]
    assert same(rate, 2e-12 * one["looked"] * one["heads"] * one["head_dim"] / seconds)
    assert same(ratio, one["seconds"]["deep_gemm"] / seconds)


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


def test_nvfp4_of_few_and_of_128_rows() -> None:
    """The README leaves out no row of the record."""
    rows = record("blockscaled_llama8b_nvfp4")["rows"]
    few, many = ([row for row in rows if (row["m"] == 128) == is_many] for is_many in (False, True))
    assert {row["m"] for row in few} == {1, 8, 16, 32, 64}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^- NVFP4 products of (.*)$", text, re.MULTILINE)
    assert told.startswith(
        f"1 to 64 rows: {geomean([row['ratio'] for row in few]):.1f} times as quick as dequantising and "
        f"multiplying, over {len(few)} problems."
    )
    assert f" 128 rows it is {geomean([row['ratio'] for row in many]):.1f} times" in told
    assert f" and {geomean([row['ratio_to_mm'] for row in many]):.2f} of the speed" in told
    assert f"({len(many)} problems)" in told


def test_numbers_are_compared_as_they_are_written() -> None:
    assert same("[1.07](x_1.md)", 1.0749)
    assert not same("1.07", 1.076)
    assert same("1,172", 1171.6)
    assert not same("94 %", 95)
