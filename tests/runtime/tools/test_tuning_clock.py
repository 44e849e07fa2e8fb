"""The clock of tuning, with graphs that run nothing: how often each is replayed, and what is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.tools.tuning import clock as clocks
from tilewright.tools.tuning.clock import MOST_REPLAYS, SAMPLE_SECONDS, GpuClock

SETS = 6


class Graph:
    """A graph whose calls take what `seconds` says of whom they call."""

    made: ClassVar[list[Graph]] = []
    seconds_of: ClassVar[dict[str, float]] = {}

    def __init__(self, calls: Sequence[Callable[[], Any]], *, warm_up: int, pool: Any = None) -> None:
        self.pool = pool or object()
        self.of = [call() for call in calls]
        self.calls = len(calls)
        self.timed: list[tuple[int, bool]] = []
        self.replays = 0
        Graph.made.append(self)

    def replay(self) -> None:
        self.replays += 1

    def seconds(self, replays: int = 1, *, ahead: bool = False) -> float:
        self.timed.append((replays, ahead))
        return Graph.seconds_of[self.of[0]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Problem], GpuClock]:
    Graph.made, Graph.seconds_of = [], {"peer": 2e-5}
    operands = [SimpleNamespace(call=lambda tactic: tactic.kernel, warmed=0) for _ in range(SETS)]

    def peer(x: Any) -> str:
        x.warmed += 1
        return "peer"

    def make(problem: Problem) -> GpuClock:
        return GpuClock("gemm", problem, H200, seed=0)

    monkeypatch.setattr(clocks, "Replays", Graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(clocks.measuring, "make_operands", lambda *_: operands)
    monkeypatch.setattr(
        clocks.measuring, "peer_of", lambda _, problem: None if problem.bias else ("torch.mm", peer)
    )
    return make


def test_a_sample_is_of_replays_in_a_row_behind_a_head_start(clock) -> None:
    here, quick = clock(Problem(64, 4096, 4096)), Tactic("a")
    Graph.seconds_of |= {"a": 1e-5, "b": 1e-7}
    assert here.quick(quick, float("inf")) == here.again(quick) == 1e-5
    (graph,) = Graph.made
    assert graph.of == ["a"] * SETS
    assert graph.timed[-1] == (round(SAMPLE_SECONDS / (SETS * 1e-5)), True)
    assert here.again(Tactic("b")) == 1e-7, "without a quick time before"
    assert Graph.made[-1].timed[-1] == (MOST_REPLAYS, True)
    assert Graph.made[-1].pool is graph.pool


def test_the_peer_is_sampled_as_tactics_are(clock) -> None:
    here = clock(Problem(64, 4096, 4096))
    assert [here.peer() for _ in range(3)] == [2e-5] * 3
    (graph,) = Graph.made
    assert (graph.replays, len(graph.timed)) == (1, 4)
    assert graph.timed[1:] == [(round(SAMPLE_SECONDS / (SETS * 2e-5)), True)] * 3
    assert clock(Problem(64, 4096, 4096, bias=True)).peer() is None


def test_calls_that_are_long_are_repeated_no_more_often_than_a_cold_cache_asks_for(clock) -> None:
    here = clock(Problem(8192, 8192, 28672))
    Graph.seconds_of |= {"a": 5e-3, "b": 5e-3}
    here.quick(Tactic("a"), float("inf"))
    here.quick(Tactic("b"), 6e-3)
    assert [graph.calls for graph in Graph.made] == [SETS, 2]
    assert [len(graph.timed) for graph in Graph.made] == [1, 1], "one replay says enough"
    here.again(Tactic("b"))
    assert Graph.made[1].timed[-1] == (1, True)
