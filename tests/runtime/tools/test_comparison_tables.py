"""Tables, CSV and JSON of a comparison of two groups of kernels."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.gemm.problem import Problem
from tilewright.tools.benchmarking import groups, report
from tilewright.tools.benchmarking.comparing import Comparison, Side
from tilewright.tools.tuning.trials import Timing

LABELS = ("ultra", "rest")


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("arch=sm103 k_tile=768", "rest", ("sm103_k_tile768", "rest")),
        ("schedule=pingpong", "schedule=cooperative", ("pingpong", "cooperative")),
        ("swap_ab=true", "swap_ab=false", ("swap_ab", "no_swap_ab")),
        ("~swap_ab=true", "*coop*,*ping*", ("not_swap_ab", "coop_ping")),
        ("arch=sm_100f", "arch=sm100f", ("sm_100f", "sm100f")),
        ("*coop", "coop*", ("a", "b")),
        ("*", "rest", ("a", "rest")),
        ("gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_pingpong", "rest", ("a", "rest")),
    ],
)
def test_labels_come_from_filters(first: str, second: str, wanted: tuple[str, str]) -> None:
    assert groups.labels(first.split(), second.split()) == wanted


@pytest.mark.parametrize("labels", [("a", "a"), ("", "b"), ("a,b", "c"), ("a b", "c")])
def test_labels_that_make_no_columns(labels: tuple[str, str]) -> None:
    with pytest.raises(ArgumentError, match="--labels"):
        groups.check_labels(*labels)


def comparisons() -> list[Comparison]:
    first, second = Problem(1, 4096, 7168), Problem(64, 4096, 7168)

    def side(name: str, seconds: float) -> Side:
        best = Timing(Tactic(name), seconds)
        return Side(best, [Timing(Tactic("x_slower"), 2 * seconds), best])

    refused = Timing(Tactic("x_c"), None, "refused\n  at once", wrong=True)
    return [
        Comparison(first, side("x_a", 10e-6), side("x_b", 20e-6)),
        Comparison(second, side("x_a@splits=4", 40e-6), side("x_b", 20e-6)),
        Comparison(second, side("x_a", 40e-6), Side(None, [refused], 3, "all 1 tactics failed")),
    ]


def test_a_wide_table_has_its_tactics_under_the_problems() -> None:
    lines = report.table(comparisons(), LABELS).splitlines()
    assert lines[1].replace("ultra ", "ultra:").replace("rest ", "rest:").split() == [
        "m", "n", "k", "ultra:ms", "ultra:TFLOP/s", "rest:ms", "rest:TFLOP/s", "speed-up",
    ]  # fmt: skip
    assert lines[2].split() == ["1", "4096", "7168", "0.0100", "5.9", "0.0200", "2.9", "2.000"]
    assert lines[3:5] == ["    ultra: a", "    rest: b"]
    assert lines[5].split()[-1] == "0.500"
    assert lines[9] == "    ultra: a"
    assert lines[10].startswith("Speed-up of ultra"), "a side without a result names no tactic"
    assert max(map(len, lines[:-1])) <= 80


def test_the_table_has_the_columns_of_pull_request_2888(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "width", lambda: 200)
    lines = report.table(comparisons(), LABELS).splitlines()
    assert lines[0] == "Tactics' names go on from x_"
    assert lines[1].split("  ")[-1] == "speed-up"
    assert lines[1].replace("ultra ", "ultra:").replace("rest ", "rest:").split() == [
        "m", "n", "k", "ultra:ms", "ultra:TFLOP/s", "ultra:tactic", "rest:ms", "rest:TFLOP/s", "rest:tactic",
        "speed-up",
    ]  # fmt: skip
    assert lines[2].split() == ["1", "4096", "7168", "0.0100", "5.9", "a", "0.0200", "2.9", "b", "2.000"]
    assert lines[4].split() == ["64", "4096", "7168", "0.0400", "94.0", "a", "-", "-", "-", "-"]
    assert len({len(line) for line in lines[1:5]}) == 1
    assert lines[-1] == (
        "Speed-up of ultra over rest (rest's time over ultra's): geomean 1.000; "
        "ultra is faster on 1 of 2; 1 without a result on both sides"
    )
    assert report.table([], LABELS).endswith("No problem was measured on both sides.")


def test_the_csv_has_the_header_of_pull_request_2888() -> None:
    text = report.as_csv(comparisons(), ("sm100", "sm103"))
    assert text.splitlines()[0] == (
        "m,n,k,sm100_ms,sm100_tflops,sm100_tactic,sm103_ms,sm103_tflops,sm103_tactic,speedup"
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[1]["sm100_tactic"] == "x_a@splits=4"
    assert (rows[0]["sm100_ms"], rows[0]["sm103_ms"], rows[0]["speedup"]) == ("0.01", "0.02", "2.0")
    assert float(rows[0]["sm100_tflops"]) == pytest.approx(2 * 4096 * 7168 / 10e-6 * 1e-12, abs=1e-3)
    assert [rows[2][name] for name in ("sm103_ms", "sm103_tflops", "sm103_tactic", "speedup")] == [""] * 4
    awkward = Side(Timing(Tactic("x", cluster="2x1", raster="along_n", swizzle=2), 1e-5))
    quoted = report.as_csv([Comparison(Problem(1, 8, 8), awkward, awkward)], LABELS)
    assert len(next(iter(csv.reader(quoted.splitlines()[1:])))) == 10, "a comma in a tactic is no column"


def test_the_json_holds_everything(tmp_path: Path) -> None:
    actual = report.as_json(comparisons(), LABELS, {"device": "NVIDIA H200"}, tactics=True)
    actual = json.loads(json.dumps(actual))
    assert actual["device"] == "NVIDIA H200"
    assert actual["geomean"] == pytest.approx(1.0)
    first, _, last = actual["problems"]
    assert (first["problem"]["m"], first["problem"]["d"]) == (1, "bf16")
    assert first["a"]["best"] == {"ms": 0.01, "tflops": 5.872, "tactic": "x_a"}
    assert [row["tactic"] for row in first["a"]["tactics"]] == ["x_a", "x_slower"]
    assert last["b"]["failed"] == [{"tactic": "x_c", "reason": "refused\n  at once", "wrong": True}]
    assert (last["b"]["best"], last["b"]["pruned"], last["speedup"]) == (None, 3, None)
    brief = report.as_json(comparisons()[2:], LABELS, {}, tactics=False)
    assert "tactics" not in brief["problems"][0]["a"]
    assert brief["geomean"] is None


def test_failures_are_told_unasked_and_every_tactic_on_request() -> None:
    brief = list(report.notes(comparisons(), LABELS, tactics=False))
    assert brief == [
        "64x4096x7168:",
        "  rest: no result: all 1 tactics failed",
        "  rest: WRONG  x_c: refused; at once",
    ]
    full = list(report.notes(comparisons(), LABELS, tactics=True))
    assert full[0] == "1x4096x7168:"
    assert full[1].split() == ["ultra:", "0.0100", "ms", "5.9", "TFLOP/s", "x_a"]
    assert full[2].endswith("x_slower")
    assert full[-1] == "  rest: 3 more tactics were left out by the cost model"
