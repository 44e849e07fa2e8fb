"""How graphs of single launches are timed in rounds: how many, how sure, and what is subtracted."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.lib import launch_graphs  # noqa: E402
from benchmarks.lib.launch_cases import Case  # noqa: E402


class Graph:
    """Stands for a graph. Its samples are some seconds, which repeat."""

    def __init__(self, *seconds: float, calls: int = 2) -> None:
        self._samples, self.calls, self.replays = itertools.cycle(seconds), calls, 0

    def sample(self) -> float:
        self.replays += 1
        return next(self._samples)


OURS, PEER, OTHERS = ("cold", "ours"), ("cold", "a"), ("cold", launch_graphs.BETWEEN)


def measured(monkeypatch: pytest.MonkeyPatch, sides: dict[Any, Graph]) -> dict[Any, list[float]]:
    monkeypatch.setattr(launch_graphs, "queued_seconds", lambda graphs: [graph.sample() for graph in graphs])
    graphs = launch_graphs.Graphs.__new__(launch_graphs.Graphs)
    graphs._graphs = sides  # type: ignore[assignment]
    return graphs.microseconds()  # type: ignore[return-value]


def test_only_cold_launches_have_other_kernels_to_subtract() -> None:
    seconds = {OTHERS: [2e-5, 2e-5, 9e-5], OURS: [3e-5, 3.2e-5, 3.1e-5], ("warm", "ours"): [1e-5] * 3}
    times = launch_graphs.net_times(seconds)
    assert times == {OURS: [10.0, 12.0, 11.0], ("warm", "ours"): [10.0] * 3}


@pytest.mark.parametrize("measures", [("warm",), ("cold",), ("warm", "cold")])
def test_graphs_are_those_of_the_measures(measures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_graphs, "seconds_of", lambda case: 1e-5)
    monkeypatch.setattr(launch_graphs, "Replays", lambda calls, pool: Graph(3e-5, 1e-5, 2e-5))
    monkeypatch.setattr(launch_graphs, "queued_seconds", lambda graphs: [graph.sample() for graph in graphs])
    between: Any = SimpleNamespace(
        alone=lambda launches: Graph(1e-6), kernels=SimpleNamespace(before=None), pool=None
    )
    between.kernels.before = lambda call: call
    graphs = launch_graphs.Graphs(Case([1, 2], lambda x: x, {}), between, measures)
    graphs.add("ours", lambda x: x)
    assert graphs.screened("ours") == dict.fromkeys(measures, 1e-5)
    assert list(graphs.microseconds()) == [(measure, "ours") for measure in measures]
    graphs.remove("ours")
    assert graphs._graphs.keys() <= {("cold", launch_graphs.BETWEEN)}


def test_long_products_are_launched_less_often() -> None:
    launches = [launch_graphs.launches_for(us * 1e-6) for us in (5, 60, 110, 251, 5000)]
    assert launches == [16, 16, 10, 4, 4]


def test_long_products_have_fewer_rounds() -> None:
    assert [launch_graphs.rounds_of(seconds) for seconds in (1e-4, 9e-3, 4e-2, 1.0)] == [12, 12, 5, 4]


@pytest.mark.parametrize(
    ("seconds", "rounds", "settling"),
    [(1e-5, 12, 0), (1e-3, 12, 25), (2e-2, 4, 2), (1.0, 4, 1)],
    ids=["short", "settled", "long", "longest"],
)
def test_clocks_settle_before_long_products(
    seconds: float, rounds: int, settling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples in the rounds that settle are a third longer. The first sample is of no round."""
    total = seconds + 2.5e-5
    samples = [total] + [total * 4 / 3] * settling + [total] * rounds
    sides = {OTHERS: Graph(2.5e-5), OURS: Graph(*samples), PEER: Graph(*samples)}
    times = measured(monkeypatch, sides)
    assert times == {OURS: [pytest.approx(seconds * 1e6)] * rounds, PEER: times[OURS]}
    assert {graph.replays for graph in sides.values()} == {1 + settling + rounds}


@pytest.mark.parametrize(("noise", "rounds"), [(3e-8, 12), (5e-8, 24), (3e-7, 48)])
def test_rounds_are_added_until_a_ratio_is_sure(
    noise: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round takes 0.68 ms here, so that four times twelve rounds take less than 0.04 s."""
    samples = [1.2e-5 + part * noise for part in (0, 1, -1, 0.5, -0.5)]
    sides = {OTHERS: Graph(1e-5, calls=20), OURS: Graph(1.2e-5, calls=20), PEER: Graph(*samples, calls=20)}
    numbers: list[int] = []
    in_rounds = launch_graphs.in_rounds

    def numbered(graphs: Any, of_rounds: range, warm: Any) -> Any:
        numbers.extend(of_rounds)
        return in_rounds(graphs, of_rounds, warm)

    monkeypatch.setattr(launch_graphs, "in_rounds", numbered)
    times = measured(monkeypatch, sides)
    assert numbers == [*range(rounds)]
    assert {len(each) for each in times.values()} == {rounds}
    ratio, error = launch_graphs.ratios.of_rounds(times[PEER], times[OURS])
    assert (ratio, error < launch_graphs.ERROR) == (pytest.approx(1.0, abs=0.01), rounds < 48)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("noise", "is_precise"), [(0.018, True), (0.022, False)])
def test_an_error_is_a_share_of_the_ratio_within_a_measure(
    ratio: float, noise: float, is_precise: bool
) -> None:
    """In the other measure both sides vary alike, so that their ratio is sure."""
    peer = [10.0 * ratio * (1 - noise), 10.0 * ratio * (1 + noise)] * 6
    cold = {OURS: [10.0] * 12, PEER: peer}
    warm = {("warm", side): [10.0, 20.0] * 6 for side in ("ours", "a")}
    assert launch_graphs.is_precise(cold | warm) == is_precise


@pytest.mark.parametrize(
    ("calls", "replays", "rounds"),
    [(2, 2, 12), (900, 2, 11), (2000, 1, 9)],
    ids=["short", "half as long", "long"],
)
def test_only_warm_samples_of_short_products_have_a_replay_before(
    calls: int, replays: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays before samples count in the time of a round, by which their number is chosen."""
    sides = {OTHERS: Graph(1e-5), ("warm", "ours"): Graph(1e-5, calls=calls)}
    times = measured(monkeypatch, sides)
    assert len(times["warm", "ours"]) == rounds
    assert [graph.replays for graph in sides.values()] == [1 + rounds, 1 + replays * rounds]


def test_samples_of_a_side_are_in_the_order_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is its name here, and a sample says when it was replayed."""
    order: list[Any] = []

    def queued_seconds(graphs: list[Any]) -> list[int]:
        order.extend(graphs)
        return [*range(len(graphs))]

    monkeypatch.setattr(launch_graphs, "queued_seconds", queued_seconds)
    samples = launch_graphs.in_rounds({name: name for name in "abc"}, range(-1, 3), warm="b")  # type: ignore[misc]
    assert "".join(order) == "bbacabbcbbcacabb"
    assert samples == {"a": [2, 4, 11, 13], "b": [1, 6, 9, 15], "c": [3, 7, 10, 12]}


def test_replays_are_enqueued_at_once_and_timed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a GPU whose clock is what was replayed. The first replay is not timed."""
    enqueued: list[str] = []
    clock = itertools.accumulate([0.5, 3.0, 8.0, 3.0])  # ms

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            enqueued.append("event")
            self.at = next(clock)

        def synchronize(self) -> None:
            enqueued.append("wait")

        def elapsed_time(self, end: Event) -> float:
            return end.at - self.at

    def graph(name: str, calls: int) -> Any:
        return SimpleNamespace(calls=calls, replay=lambda: enqueued.append(name))

    monkeypatch.setattr(torch.cuda, "Event", Event)
    a, b = graph("a", 3), graph("b", 4)
    assert launch_graphs.queued_seconds([a, b, a]) == pytest.approx([1e-3, 2e-3, 1e-3])
    assert enqueued == ["a", "event", "a", "event", "b", "event", "a", "event", "wait"]
