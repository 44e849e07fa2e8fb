"""`tilewright bench compare` as it is: two groups of kernels of this GPU, two sizes, real times."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

from tilewright.architectures.routing import runs_on
from tilewright.libraries.registry import Registry
from tilewright_generator.cli import invoke

GROUPS = ("schedule=pingpong", "schedule=cooperative")
SIZES = ["-s", "64x2048x1024", "-s", "256x1024x2048"]


def compare(*arguments: str) -> int:
    return invoke(["bench", "compare", *GROUPS, "--family", "gemm", *SIZES, "--iters", "10", *arguments])


@pytest.fixture(autouse=True)
def _some_of_each_are_built() -> None:
    registry, capability = Registry(), torch.cuda.get_device_capability()
    for schedule in ("pingpong", "cooperative"):
        kernels = [
            record
            for record in registry.kernels("gemm")
            if runs_on(record.arch, capability)
            and record.config["schedule"] == schedule
            and (record.config["a"], record.config["d"], record.config["layout"]) == ("bf16", "bf16", "tn")
            and record.config["activation"] == "none"
        ]
        if not any(map(registry.is_built, kernels)):
            pytest.skip(f"no {schedule} kernel is built for this GPU: run `tilewright build sm90_gemm_lean`")


def test_two_groups_of_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "x.csv", tmp_path / "x.json"
    code = compare("--built-only", "--list-tactics", "--csv", str(files[0]), "--results", str(files[1]))
    actual = capsys.readouterr()
    assert code == 0, actual.err
    assert "geomean" in actual.out
    rows = list(csv.DictReader(files[0].open()))
    assert [(row["m"], row["n"], row["k"]) for row in rows] == [
        ("64", "2048", "1024"),
        ("256", "1024", "2048"),
    ]
    for row in rows:
        flops = 2 * int(row["m"]) * int(row["n"]) * int(row["k"])
        for label, mark in (("pingpong", "_pingpong"), ("cooperative", "_coop")):
            milliseconds = float(row[f"{label}_ms"])
            assert 1e-3 < milliseconds < 1.0
            assert float(row[f"{label}_tflops"]) == pytest.approx(flops / milliseconds * 1e-9, rel=1e-2)
            assert mark in row[f"{label}_tactic"]
        assert float(row["speedup"]) == pytest.approx(
            float(row["cooperative_ms"]) / float(row["pingpong_ms"]), rel=1e-2
        )
    record = json.loads(files[1].read_text())
    assert record["device"] == torch.cuda.get_device_name()
    assert record["driver"]
    for problem in record["problems"]:
        for side in (problem["a"], problem["b"]):
            assert side["failed"] == []
            assert side["tried"] == len(side["tactics"]) >= 1
            # Timed twice, among the fastest: no other was faster by more than what two runs differ by.
            assert side["best"]["ms"] <= 1.3 * side["tactics"][0]["ms"]


def test_kernels_of_another_gpu_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    major = torch.cuda.get_device_capability()[0]
    other = "sm_120f" if major != 12 else "sm_90a"
    assert invoke(["bench", "compare", f"arch={other}", "rest", "--family", "blockscaled_gemm", *SIZES]) == 1
    assert f"they are compiled for {other}" in capsys.readouterr().err
