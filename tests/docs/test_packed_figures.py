"""Tables of speeds in docs/packed_speed.md say what the committed records say."""

from __future__ import annotations

import re

import pytest
from figures import DOCS, Row, geomean, merged, record, same, table

PAGE = DOCS / "packed_speed.md"
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
    values = [float(entry[humming]) for entry in ratios]
    assert same(row["speed beside Humming"], geomean(values))
    assert same(row["least"], min(values))
    beside_torch = next((cell for name, cell in row.items() if name.startswith("speed beside torch")), "")
    if beside_torch:
        values = [float(entry[torch]) for entry in ratios]
        assert same(beside_torch, geomean(values))
        if "least beside it" in row:
            assert same(row["least beside it"], min(values))


def test_one_layer() -> None:
    later = record("packed_weights", "| m | ours |", after="## 8192 x 8192 with later kernels")
    for version, rows in (("0.1.20", later), ("0.1.19", record("packed_weights", PROBLEMS))):
        recorded = {row["m"]: row for row in rows}
        for row in table(PAGE, f"| m | ours, us | Humming {version}, us |"):
            expected = recorded[row["m"]]
            assert row["ours, us"] == expected["ours"]
            assert row[f"Humming {version}, us"] == expected["Humming"]
            assert row["torch.mm, us"] == expected["torch.mm"]


@pytest.mark.parametrize("row", merged(PAGE, "| problems | rows | count |"), ids=lambda row: row["rows"])
def test_many_problems(row: Row) -> None:
    ratios = [
        entry
        for entry in record(source(row), PROBLEMS)
        if within(entry["m"], row["rows"])
        and ("FP8" not in row["problems"] or entry["format"] == "e4m3_g128")
    ]
    matches(row, ratios, "ratio to Humming", "ratio to torch.mm")


def ratios_of(name: str, peer: str, rows: str) -> list[float]:
    """The ratios to a peer of a record's problems with some numbers of rows; the first table counts."""
    problems = (entry for entry in record(name, PROBLEMS) if within(entry["m"], rows))
    return [float(entry[f"ratio to {peer}"]) for entry in problems if entry[f"ratio to {peer}"]]


@pytest.mark.parametrize(
    ("head", "peer"),
    [
        ("| rows | problems | speed beside Humming |", "Humming"),
        ("| layers, weights | rows | problems |", "torch.mm"),
    ],
)
def test_newer_problems(head: str, peer: str) -> None:
    for row in table(PAGE, head):
        (name,) = re.findall(r"results/(\w+)\.md", row[f"speed beside {peer}"])
        values = ratios_of(name, peer, row["rows"])
        assert int(row["problems"]) == len(values)
        assert same(row[f"speed beside {peer}"], geomean(values))
        assert same(row["least"], min(values))


def test_fp8_layers_and_models() -> None:
    for row in table(PAGE, "| rows | problems | speed beside Humming | least | speed beside torch.mm |"):
        problems = [
            entry
            for entry in record("packed_fp8_layers", PROBLEMS)
            if (entry["m"], entry["format"]) == (row["rows"], "mxfp4")
        ]
        matches(row, problems, "ratio to Humming", "ratio to torch.mm")
    for row in table(PAGE, "| format | 512 rows |"):
        format_ = "mxfp4" if "MXFP4" in row["format"] else "int4_g128"
        for m in ("512", "2048", "8192"):
            values = [
                float(entry["ratio to torch.mm"])
                for entry in record("packed_fp8_models", PROBLEMS)
                if (entry["m"], entry["format"]) == (m, format_)
            ]
            assert same(row[m if m in row else f"{m} rows"], geomean(values))


def test_fp8_draws() -> None:
    recorded = {
        (row["format"], row["rows"]): row
        for row in record("packed_fp8_draws", "| peer | format | rows |")
        if row["peer"] == "humming"
    }
    for row in merged(PAGE, "| weights | rows | problems | speed | least |"):
        format_ = "int4_g128" if "INT4" in row["weights"] else "mxfp4"
        expected = recorded[format_, row["rows"].replace("and more", "on")]
        assert row["problems"] == expected["problems"]
        assert row["speed"] == expected["mean ratio"]
        assert row["least"] == expected["worst"]


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
        ratios = record(source(row), "| layer | format |")
        ratios = [entry for entry in ratios if within(entry["tokens"], row["tokens"])]
        return matches(row, ratios, "ratio to Humming", "ratio to torch")
    ratios = record(source(row), "| experts, chosen |")
    if "fast_accum" in what:
        ratios = [entry for entry in ratios if "fastacc" in entry["tactic"]]
        return matches(row, ratios, "ratio to Humming", "ratio to torch")
    format_ = "int4_g128" if "INT4" in what else "mxfp4"
    ratios = [entry for entry in ratios if entry["format"] == format_]
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
