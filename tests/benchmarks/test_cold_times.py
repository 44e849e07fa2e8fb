"""Which problems cold_times.py times, and how it judges a choice by them."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.fit import cold_times
from benchmarks.lib import launch_graphs
from benchmarks.lib.launch_cases import product_of
from benchmarks.lib.random_problems import Einsum

ROW = {"kind": "scaled", "first": "own", "turns": {"own": 12.0, "quick": 10.0, "other": 11.0}}
AGAIN = {"again": {"own": 11.0, "quick": 11.5, "other": 10.0}}


def test_the_fastest_by_one_set_of_times_is_compared_by_another() -> None:
    loss, crossed = cold_times.losses(ROW | AGAIN)
    assert loss == 1.2
    assert crossed == pytest.approx(math.sqrt(11.0 / 11.5 * 12.0 / 11.0))
    assert math.isnan(cold_times.losses(ROW)[1])


def test_each_kind_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    rows = [ROW, ROW | {"kind": "masked_fp8", "first": "quick"}, ROW]
    path = tmp_path / "times.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("sys.argv", ["cold_times", "--judge", str(path)])
    assert cold_times.main() == 0
    scaled, masked = capsys.readouterr().out.splitlines()
    assert scaled.startswith("scaled: 2 problems, first over fastest 1.2000 in one set of times")
    assert scaled.endswith("100.0% beyond 1.1")
    assert masked.startswith("masked_fp8: 1 problems, first over fastest 1.0000")


def test_cold_tactics_are_timed_without_the_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is its time here. A warm one is replayed twice for a sample."""
    replayed: list[float] = []

    def queued_seconds(graphs: list[float]) -> list[float]:
        replayed.extend(graphs)
        return graphs

    monkeypatch.setattr(launch_graphs, "queued_seconds", queued_seconds)
    sides = {("cold", launch_graphs.BETWEEN): 1e-5, ("cold", "a"): 1.3e-5, ("warm", "a"): 2e-6}
    times = cold_times.in_turns(sides)  # type: ignore[arg-type]
    assert times == {"turns": {"a": 3.0}, "warm_turns": {"a": 2.0}}
    assert [replayed.count(time) for time in sides.values()] == [12, 12, 24]
    del sides["warm", "a"]
    assert cold_times.in_turns(sides) == {"turns": {"a": 3.0}}  # type: ignore[arg-type]


def test_kinds_take_turns_and_shapes_are_taken_as_they_are() -> None:
    drawn = cold_times.drawn(cold_times.parsed(["scaled", "masked_fp8", "--seed", "3"]))
    assert [kind for kind, _ in itertools.islice(drawn, 4)] == ["scaled", "masked_fp8"] * 2
    listed = [*cold_times.drawn(cold_times.parsed(["scaled", "--shape", "48x512x640", "7x512x640"]))]
    assert [(kind, problem.m) for kind, problem in listed] == [("scaled", 48), ("scaled", 7)]


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cold_times.parsed(["dense"])
    assert "expected kinds of bf16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("equation", "expected"),
    [("bhr,hdr->bhd", (3, 64, 128, 4, "tn")), ("bhd,hdr->bhr", (3, 128, 64, 4, "tt"))],
)
def test_an_einsum_is_a_batched_product(equation: str, expected: tuple[int, int, int, int, str]) -> None:
    product = product_of(Einsum(equation, b=3, h=4, r=128, d=64))
    assert (product.m, product.n, product.k, product.batch, product.layout) == expected
