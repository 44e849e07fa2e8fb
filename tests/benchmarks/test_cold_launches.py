"""Single launches, warm and cold: which problems, what is subtracted, and what is recorded."""

from __future__ import annotations

import functools
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


def test_one_measure_alone_has_its_rows() -> None:
    warm = {key: seconds for key, seconds in SECONDS.items() if key[0] == "warm"}
    (row,) = cold_launches.rows_of("scaled", "1x2x3", "own", launch_graphs.net_times(warm))
    assert (row["measure"], row["ratio"], row["choice"]) == ("warm", 1.1, 0.9)
    assert cold_launches.finalists({SLOW: {"warm": 2.0}, QUICK: {"warm": 1.0}}) == [QUICK, SLOW]


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
