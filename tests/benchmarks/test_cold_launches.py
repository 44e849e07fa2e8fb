"""Single launches, warm and cold: which problems, what is subtracted, and what is recorded."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.compare import cold_launches  # noqa: E402
from benchmarks.lib import launch_cases, launch_graphs  # noqa: E402
from benchmarks.lib.launch_cases import Case  # noqa: E402

from tilewright import context as contexts  # noqa: E402
from tilewright.architectures.device import H200  # noqa: E402
from tilewright.context import Context  # noqa: E402
from tilewright.declarations.tactics import Tactic  # noqa: E402
from tilewright.families.grouped_gemm import measuring  # noqa: E402
from tilewright.families.grouped_gemm.problem import Problem  # noqa: E402

HEAD = {"command": "python", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}
SLOW, QUICK = Tactic("slow"), Tactic("quick")
MICROSECONDS = {
    "warm": {"ours": 10.0, "a": 12.0, "b": 11.0, QUICK: 9.0},
    "cold": {launch_graphs.BETWEEN: 20.0, "ours": 34.0, "a": 32.6, "b": 33.0, QUICK: 34.0},
}
SECONDS = {
    (measure, side): [us * 1e-6] * 3 for measure, sides in MICROSECONDS.items() for side, us in sides.items()
}


def test_only_cold_launches_have_other_kernels_to_subtract() -> None:
    late = {("cold", launch_graphs.BETWEEN): [2e-5, 2e-5, 9e-5], ("cold", "a"): [3e-5, 3.2e-5, 3.1e-5]}
    times = launch_graphs.net_times(SECONDS | late)
    assert times["warm", "ours"] == pytest.approx([10.0] * 3)
    assert times["cold", "ours"] == pytest.approx([14.0] * 3)
    assert times["cold", "a"] == pytest.approx([10.0, 12.0, 11.0])
    assert ("cold", launch_graphs.BETWEEN) not in times


def test_one_measure_alone_has_its_rows() -> None:
    warm = {key: seconds for key, seconds in SECONDS.items() if key[0] == "warm"}
    (row,) = cold_launches.rows_of("scaled", "1x2x3", "own", launch_graphs.net_times(warm))
    assert (row["measure"], row["ratio"], row["choice"]) == ("warm", 1.1, 0.9)
    assert cold_launches.finalists({SLOW: {"warm": 2.0}, QUICK: {"warm": 1.0}}) == [QUICK, SLOW]


@pytest.mark.parametrize("measures", [("warm",), ("cold",), ("warm", "cold")])
def test_graphs_are_those_of_the_measures(measures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_graphs, "seconds_of", lambda case: 1e-5)
    monkeypatch.setattr(launch_graphs, "Replays", lambda calls, pool: Graph(1e-5))
    monkeypatch.setattr(launch_graphs, "queued_seconds", lambda graphs: [graph.sample() for graph in graphs])
    between: Any = SimpleNamespace(
        alone=lambda launches: Graph(1e-6), kernels=SimpleNamespace(before=None), pool=None
    )
    between.kernels.before = lambda call: call
    graphs = launch_graphs.Graphs(Case([1, 2], lambda x: x, {}), between, measures)
    graphs.add("ours", lambda x: x)
    assert graphs.screened("ours").keys() == set(measures)
    assert list(graphs.microseconds()) == [(measure, "ours") for measure in measures]
    graphs.remove("ours")
    assert graphs._graphs.keys() <= {("cold", launch_graphs.BETWEEN)}


def test_long_products_are_launched_less_often() -> None:
    launches = [launch_graphs.launches_for(us * 1e-6) for us in (5, 60, 110, 251, 5000)]
    assert launches == [16, 16, 10, 4, 4]


def test_each_measure_has_its_row_beside_its_best_peer() -> None:
    warm, cold = cold_launches.rows_of("scaled", "1x2x3", "own", launch_graphs.net_times(SECONDS))
    assert (warm["measure"], warm["peer"], warm["ratio"]) == ("warm", "b", 1.1)
    assert (cold["measure"], cold["peer"], cold["ratio"]) == ("cold", "a", 0.9)
    assert (cold["us"], cold["peer_us"], cold["error"], cold["rounds"]) == (14.0, 12.6, 0.0, 3)
    assert (warm["best_tactic"], warm["best_us"], warm["choice"]) == ("quick", 9.0, 0.9)
    assert cold["choice"] == 1.0


def test_the_page_has_a_summary_of_each_kind_and_measure() -> None:
    rows = cold_launches.rows_of("scaled", "1x2x3", "own", launch_graphs.net_times(SECONDS))
    page = cold_launches.page(HEAD, rows, ["scaled 4x5x6: the time was over"])
    assert "| scaled | warm | 1 | 1.100 | 1.100 | 1.000 | 1.000 | 0.000 |" in page
    assert "| scaled | cold | 1 | 0.900 | 0.900 | 0.000 | 0.000 | 0.000 |" in page
    assert "error is below 2 %" in page
    assert "- scaled 4x5x6: the time was over" in page


def test_a_ratio_is_of_rounds_and_not_of_medians() -> None:
    times = {("cold", "ours"): [10.0, 20.0, 40.0], ("cold", "a"): [9.0, 22.0, 28.0]}
    (row,) = cold_launches.rows_of("scaled", "1x2x3", "own", times)
    assert (row["us"], row["peer_us"], row["ratio"], row["error"]) == (20.0, 22.0, 0.9, 0.2)


def test_long_products_have_fewer_rounds() -> None:
    assert [launch_graphs.rounds_of(seconds) for seconds in (1e-4, 9e-3, 4e-2, 1.0)] == [12, 12, 5, 4]


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


@pytest.mark.parametrize(
    ("seconds", "rounds", "settling"),
    [(1e-5, 12, 0), (1e-3, 12, 25), (2e-2, 4, 2), (1.0, 4, 1)],
    ids=["short", "settled", "long", "longest"],
)
def test_clocks_settle_before_long_products(
    seconds: float, rounds: int, settling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = {OTHERS: Graph(2.5e-5), OURS: Graph(seconds + 2.5e-5), PEER: Graph(2.5e-5 + seconds)}
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
    times = measured(monkeypatch, sides)
    assert {len(each) for each in times.values()} == {rounds}
    ratio, error = launch_graphs.ratios.of_rounds(times[PEER], times[OURS])
    assert (ratio, error < launch_graphs.ERROR) == (pytest.approx(1.0, abs=0.01), rounds < 48)


@pytest.mark.parametrize(("calls", "replays"), [(2, 2), (2000, 1)], ids=["short", "long"])
def test_only_warm_samples_of_short_products_have_a_replay_before(
    calls: int, replays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = {OTHERS: Graph(1e-5, calls=calls), ("warm", "ours"): Graph(1e-5, calls=calls)}
    times = measured(monkeypatch, sides)
    rounds = len(times["warm", "ours"])
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


def test_finalists_are_the_fastest_of_either_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_launches, "FINALISTS", 1)
    middle = Tactic("middle")
    screened = {
        SLOW: {"warm": 3.0, "cold": 4.0},
        QUICK: {"warm": 1.0, "cold": 3.0},
        middle: {"warm": 2.0, "cold": 2.0},
    }
    assert cold_launches.finalists(screened) == [QUICK, middle]


def test_of_many_sides_the_fastest_are_screened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_launches, "SHORTLIST", 2)
    monkeypatch.setattr(cold_launches, "short_time", lambda calls: sum(call() for call in calls))
    operands = Case([3.0, 4.0], lambda x: x, {})
    few = {"a": lambda x: x, "b": lambda x: 2 * x}
    assert cold_launches.shortlist(few, operands) == ["a", "b"]
    assert cold_launches.shortlist({**few, "c": lambda x: x / 2}, operands) == ["c", "a"]


def test_kinds_take_turns_and_parts_cover_all() -> None:
    arguments = ["scaled", "einsum", "--count", "3", "--seed", "5"]
    whole = cold_launches.problems(cold_launches.parsed(arguments))
    assert [kind for kind, _ in whole] == ["scaled", "einsum"] * 3
    halves = [
        cold_launches.problems(cold_launches.parsed([*arguments, "--part", part])) for part in ("1/2", "2/2")
    ]
    assert sorted(map(str, halves[0] + halves[1])) == sorted(map(str, whole))
    later = cold_launches.problems(cold_launches.parsed([*arguments, "--skip", "1", "--count", "2"]))
    assert later == whole[2:]


def test_a_problem_that_is_left_out_does_not_count() -> None:
    drawn = cold_launches.problems(cold_launches.parsed(["k_grouped_fp8", "--count", "4"]))
    kept = cold_launches.problems(
        cold_launches.parsed(["k_grouped_fp8", "--count", "2", "--leave-out", "0", "2"])
    )
    assert kept == [drawn[1], drawn[3]]


def test_listed_shapes_replace_random_ones() -> None:
    given = cold_launches.parsed(["scaled", "bf16", "--shape", "128x4096x4096", "48x6144x4096"])
    problems = cold_launches.problems(given)
    assert [kind for kind, _ in problems] == ["scaled", "bf16"] * 2
    assert [(p.m, p.n, p.k) for _, p in problems] == [(128, 4096, 4096)] * 2 + [(48, 6144, 4096)] * 2  # type: ignore[union-attr]


def test_sets_keep_operands_out_of_l2_as_far_as_memory_allows() -> None:
    l2 = 60 * 10**6
    assert launch_cases.number_of_sets(10**7, 10**7, l2) * 10**7 > 3 * l2
    assert launch_cases.number_of_sets(10**9, 10**9, l2) == 4
    assert launch_cases.number_of_sets(10**9, 10**10, l2) == 2


def case(**peers: Any) -> Case:
    return Case([SimpleNamespace(out=torch.empty(4))], lambda x: x.out.fill_(1.0), peers)


def wrote(value: float) -> Any:
    def call(operands: Any) -> None:
        operands.out[:3] = value
        operands.out[3] += value

    return call


@pytest.fixture
def calls_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are done when they return."""
    monkeypatch.setattr(launch_cases, "wait_for", lambda side: None)


@pytest.mark.usefixtures("calls_on_the_host")
def test_results_are_compared_with_each_peer() -> None:
    case(deep_gemm=wrote(1.0), torch=lambda x: torch.ones(4)).check()
    with pytest.raises(ValueError, match="differs from deep_gemm"):
        case(deep_gemm=wrote(1.02)).check()
    case(torch=wrote(1.02)).check()
    with pytest.raises(ValueError, match="differs from torch by nan"):
        case(torch=lambda x: torch.full((4,), float("nan"))).check()


@pytest.mark.parametrize(
    "problem",
    [
        Problem(64, 64, 512, 2, d="f32", c=True, grouping="k_sizes", scales="1x128"),
        Problem(256, 64, 256, 2, grouping="row_index"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("calls_on_the_host")
def test_float64_judges_where_results_differ(problem: Problem) -> None:
    with contexts.use(Context(described=H200)):
        operands = measuring.make(problem, torch.Generator().manual_seed(0))
    if problem.c:
        operands.c = operands.out
    operands.out.zero_()
    right = operands.compared(every=True)[1]

    def call(factor: float) -> Any:
        def write(x: Any) -> None:
            rows = x.out.reshape(-1, problem.n)
            counted = x.groups() >= 0 if problem.grouping == "row_index" else slice(None)
            rows[counted] = (factor * right).reshape(-1, problem.n).to(rows.dtype)

        return write

    with pytest.raises(ValueError, match=r"float64: ours \d.\d\de-0[3-9], deep_gemm 1.00e-01"):
        Case([operands], call(1.0), {"deep_gemm": call(1.1)}).check()
    with pytest.raises(ValueError, match=r"float64: ours 1.00e-01, deep_gemm \d.\d\de-0[3-9]"):
        Case([operands], call(0.9), {"deep_gemm": call(1.0)}).check()


def test_calls_take_the_sets_in_turn() -> None:
    sets = [SimpleNamespace(name=name) for name in "abc"]
    of_sets = Case(sets, lambda x: x.name, {})
    assert [call() for call in of_sets.calls(of_sets.ours)] == ["a", "b", "c"]
    assert [call() for call in of_sets.calls(of_sets.ours, 2)] == ["a", "b"]


def test_a_side_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = SimpleNamespace(record=lambda: None, query=lambda: False)
    monkeypatch.setattr(torch.cuda, "Event", lambda: endless)
    monkeypatch.setattr(launch_cases, "MOST_SECONDS", 0)
    with pytest.raises(TimeoutError, match="deep_gemm does not end within 0 s"):
        launch_cases.wait_for("deep_gemm")
    endless.query = lambda: True
    launch_cases.wait_for("deep_gemm")


def test_an_einsum_by_a_tactic_is_compared_in_the_order_of_its_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gemm(left: Any, right: Any, *, out: Any, tactic: Tactic) -> Any:
        return out.copy_(left @ right)

    monkeypatch.setattr(launch_cases.tilewright, "gemm", gemm)
    equation, a, b, out = "bhr,hdr->bhd", torch.randn(5, 3, 8), torch.randn(3, 4, 8), torch.empty(5, 3, 4)
    views = launch_cases.lowered_call(equation, a, b, out=out, c=None)
    call = functools.partial(launch_cases._product, views.left, views.right, views.out)
    case = Case(
        [SimpleNamespace(a=a, b=b, out=out, call=call)], lambda x: torch.einsum(equation, x.a, x.b), {}
    )
    assert case.is_right(lambda x: x.call(QUICK))
    assert not case.is_right(lambda x: torch.zeros(5, 3, 4))
