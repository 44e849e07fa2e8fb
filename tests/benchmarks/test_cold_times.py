"""Which problems cold_times.py times, and how it judges a choice by them."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.fit import cold_times
from benchmarks.lib import launch_graphs
from benchmarks.lib.launch_cases import Case, product_of
from benchmarks.lib.random_problems import Einsum

from tilewright.declarations.tactics import Tactic

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


def test_each_cold_tactic_is_compared_with_the_other_kernels_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other kernels take longer in each queue of replays, and the first sample of a queue is late."""
    others, seconds = itertools.count(20e-6, 5e-6), {None: 0.0, Tactic("a"): 3e-6, Tactic("b"): 2e-6}

    def queued_seconds(graphs: list[Any]) -> list[float]:
        between = next(others)
        late = [4e-6] + [0.0] * len(graphs)
        return [between + seconds[graph.tactic] + more for graph, more in zip(graphs, late, strict=False)]

    def replays(calls: list[Any], **_: Any) -> Any:
        return SimpleNamespace(tactic=calls[0](), calls=len(calls), pool=None)

    class Noise:
        def __call__(self) -> None:
            pass

        def before(self, call: Any) -> Any:
            return call

    monkeypatch.setattr(launch_graphs, "queued_seconds", queued_seconds)
    monkeypatch.setattr(cold_times, "queued_seconds", queued_seconds)
    monkeypatch.setattr(cold_times, "Replays", replays)
    case = Case([SimpleNamespace(call=lambda tactic: tactic)] * 2, lambda operands: None, {})
    noise: Any = Noise()
    row = cold_times.measured(case, noise, [Tactic("a"), Tactic("b")], math.inf, has_warm=False, again=False)
    assert row == {"us": {"a": 3.0, "b": 2.0}, "turns": {"a": 3.0, "b": 2.0}}


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
