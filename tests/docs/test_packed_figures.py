"""Tables of speeds in docs/packed_weights.md say what the committed records say."""

from __future__ import annotations

import re

import pytest
from figures import DOCS, Row, geomean, merged, record, same, table

PAGE = DOCS / "packed_weights.md"
PROBLEMS = "| n x k | m |"


def source(row: Row) -> str:
    (name,) = re.findall(r"results/(\w+)\.md", row["speed beside Humming"])
    return str(name)


def within(text: str, rows: str) -> bool:
    """Whether a number of rows is in a range such as `1 to 16`, or is `16384`."""
    least, _, most = rows.partition(" to ")
    return int(least) <= int(text) <= int(most or least)


def matches(row: Row, ratios: list[Row], humming: str, torch: str) -> None:
    """The row has the mean and the least of some problems' ratios."""
    assert int(row.get("count") or row["problems"]) == len(ratios)
    values = [float(one[humming]) for one in ratios]
    assert same(row["speed beside Humming"], geomean(values))
    assert same(row["least"], min(values))
    beside_torch = next((cell for name, cell in row.items() if name.startswith("speed beside torch")), "")
    if beside_torch:
        values = [float(one[torch]) for one in ratios]
        assert same(beside_torch, geomean(values))
        assert same(row.get("least beside it") or f"{min(values):.3f}", min(values))


def test_one_layer() -> None:
    recorded = {row["m"]: row for row in record("packed_weights", PROBLEMS)}
    few = record("packed_weights", "| n x k | m | format | selected |")
    recorded["1"]["ours"] = next(
        row["selected"] for row in few if (row["n x k"], row["m"]) == ("8192 x 8192", "1")
    )
    for row in table(PAGE, "| m | ours, us |"):
        expected = recorded[row["m"]]
        assert row["ours, us"] == expected["ours"]
        assert row["Humming 0.1.19, us"] == expected["Humming"]
        assert row["torch.mm, us"] == expected["torch.mm"]


@pytest.mark.parametrize("row", merged(PAGE, "| problems | rows | count |"), ids=lambda row: row["rows"])
def test_many_problems(row: Row) -> None:
    ratios = [
        one
        for one in record(source(row), PROBLEMS)
        if within(one["m"], row["rows"]) and ("FP8" not in row["problems"] or one["format"] == "e4m3_g128")
    ]
    matches(row, ratios, "ratio to Humming", "ratio to torch.mm")


def test_stacks() -> None:
    for name, kind in (("packed_stacks", ""), ("packed_stacks_engines", ", as engines")):
        means = {(row["format"], row["m"]): row["geomean"] for row in record(name, "| format | m | count |")}
        rows = table(PAGE, "| m | [INT4]")
        assert len(rows) == 5
        link = f"(../benchmarks/results/{name}.md)"
        for row in rows:
            assert row[f"[INT4{kind}]{link}"] == means["int4_g128", row["m"]]
            assert row[f"[MXFP4{kind}]{link}"] == means["mxfp4", row["m"]]


def test_fp8_activations() -> None:
    recorded = {
        (row["format"], row["rows"]): row
        for row in record("packed_fp8_tactics", "| format | rows | problems |")
    }
    rows = merged(PAGE, "| format | rows | speed beside Humming |")
    assert len(rows) == len(recorded)
    for row in rows:
        format_ = "int4_g128" if "INT4" in row["format"] else "mxfp4"
        expected = recorded[format_, row["rows"].replace("and more", "on")]
        assert row["speed beside Humming"] == expected["over the chosen"]
        assert row["least"] == expected["least"]
        assert row["speed beside torch.mm"] == expected["torch.mm's over the chosen"]


@pytest.mark.parametrize(
    "row",
    merged(PAGE, "| activations, format | tokens |"),
    ids=lambda row: f"{row['activations, format']} {row['tokens']}",
)
def test_experts(row: Row) -> None:
    what = row["activations, format"]
    if "BF16" in what:
        ratios = record(source(row), "| layer | format |", after="## All problems again")
        ratios = [one for one in ratios if within(one["tokens"], row["tokens"])]
        return matches(row, ratios, "ratio to Humming", "ratio to torch")
    ratios = record(source(row), "| experts, chosen |")
    if "fast_accum" in what:
        ratios = [one for one in ratios if "fastacc" in one["tactic"]]
        return matches(row, ratios, "ratio to Humming", "ratio to torch")
    format_ = "int4_g128" if "INT4" in what else "mxfp4"
    ratios = [one for one in ratios if one["format"] == format_]
    return matches(row, ratios, "Humming's time over the chosen", "")


def test_bandwidth_of_experts() -> None:
    names = ("experts, chosen", "n x k", "format", "tokens")
    recorded = {
        tuple(row[name].strip("`") for name in names): row
        for row in record("packed_experts", "| format | experts, chosen |", after="## Tactics one by one")
    }
    for row in table(PAGE, "| experts, chosen | n x k |"):
        expected = recorded[tuple(row[name].strip("`") for name in names)]
        assert row["ours, us"] == expected["ours"]
        assert row["torch, us"] == expected["torch, BF16"]
        assert row["TB/s of weights"] == expected["TB/s"]
        assert row["TFLOP/s"] == expected["TFLOP/s"]
