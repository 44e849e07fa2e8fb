"""Products beside every algorithm of cuBLASLt: which are measured in turn, and what is recorded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.compare import every_algorithm  # noqa: E402
from benchmarks.lib.gemm_problems import drawn  # noqa: E402

from tilewright.families.gemm.problem import Problem  # noqa: E402

HEAD = {"command": "python", "date": "2026-11-29", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}
PROBLEM = Problem(3, 4, 5)


class Graph:
    """Stands for a graph: its clock is fixed once it was replayed a few times, and slower before."""

    calls = 2

    def __init__(self, seconds: float) -> None:
        self._seconds, self.ahead = seconds, 0

    def seconds(self, *, ahead: bool = False) -> float:
        self.ahead += ahead
        return self._seconds if ahead else 2 * self._seconds


def row(kind: str, problem: Problem, **times: float) -> dict[str, Any]:
    return every_algorithm.row_of(kind, problem, "own", 2, times)


def test_the_fastest_algorithms_are_finalists() -> None:
    seconds = {"ours": 1.0, "torch": 2.0, "0": 9.0, "1": 5.0, "2": 8.0, "3": 6.0, "4": 7.0}
    assert every_algorithm.finalists(seconds) == ["1", "3", "4"]


def test_a_row_is_beside_the_fastest_peer_and_beside_torch() -> None:
    by_algorithm = every_algorithm.row_of("bf16", PROBLEM, "own", 2, {"ours": 10.0, "torch": 12.0, "1": 9.0})
    assert (by_algorithm["peer"], by_algorithm["ratio"], by_algorithm["torch"]) == ("1", 0.9, 1.2)
    by_torch = every_algorithm.row_of("bf16", PROBLEM, "own", 2, {"ours": 10.0, "torch": 11.0, "1": 12.0})
    assert (by_torch["peer"], by_torch["ratio"], by_torch["torch"]) == ("torch", 1.1, 1.1)


def test_problems_with_a_row_are_not_asked_again() -> None:
    problems = list(itertools.islice(drawn("bf16", 7), 3))
    whole = every_algorithm.unmeasured(["bf16", "fp8"], 7, 3, [])
    assert [kind for kind, _ in whole] == ["bf16", "fp8"] * 3
    rows = [row("bf16", problems[0], ours=1.0, torch=1.0), row("fp8", problems[1], ours=1.0, torch=1.0)]
    left = every_algorithm.unmeasured(["bf16", "fp8"], 7, 3, rows)
    assert left == [whole[place] for place in (1, 2, 4, 5)]


def test_rows_of_an_earlier_run_are_read(tmp_path: Path) -> None:
    output = tmp_path / "every"
    assert every_algorithm.rows_before(None) == every_algorithm.rows_before(output) == []
    rows = [row("bf16", PROBLEM, ours=1.0, torch=2.0)]
    output.with_suffix(".json").write_text(json.dumps({"rows": rows}))
    assert every_algorithm.rows_before(output) == rows


def test_each_kind_has_a_summary_beside_all_and_beside_torch() -> None:
    rows = [
        row("bf16", PROBLEM, **{"ours": 10.0, "torch": 12.0, "1": 9.0}),
        row("fp8", PROBLEM, ours=1, torch=2),
    ]
    page = every_algorithm.page(HEAD, rows)
    assert "| fastest algorithm | bf16 | 1 | 0.900 | 0.900 | 0.000 | 0.000 |" in page
    assert "| torch | bf16 | 1 | 1.200 | 1.200 | 1.000 | 1.000 |" in page
    assert "| fastest algorithm | fp8 | 1 | 2.000 | 2.000 | 1.000 | 1.000 |" in page


def test_a_wrong_result_is_named() -> None:
    operands = SimpleNamespace(
        problem=PROBLEM, out=torch.zeros(3, 4), poison=lambda: operands.out.fill_(float("nan"))
    )

    def writes(value: float) -> Any:
        return lambda x: x.out.fill_(value)

    every_algorithm.compared(
        {"ours": writes(1.0), "0": writes(1.01), "torch": lambda x: torch.ones(3, 4)}, operands
    )
    for wrong in (writes(1.2), lambda x: x.out.fill_(float("nan"))):
        with pytest.raises(ValueError, match="1 differs from ours by"):
            every_algorithm.compared({"ours": writes(1.0), "1": wrong}, operands)


def test_samples_wait_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = {"ours": Graph(5e-6), "1": Graph(4e-6)}
    monkeypatch.setattr(every_algorithm, "graph_of", lambda call, operands: graphs[call])
    monkeypatch.setattr(every_algorithm, "WARM_SECONDS", 0)
    assert every_algorithm.microseconds({"ours": "ours", "1": "1"}, []) == {"ours": 5.0, "1": 4.0}
    assert [graph.ahead for graph in graphs.values()] == [every_algorithm.ROUNDS] * 2


@pytest.mark.parametrize(("seconds", "calls"), [(1e-5, 6), (1e-3, 2)])
def test_long_products_are_screened_with_fewer_calls(
    seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = []

    def graph_of(call: Any, operands: Any) -> Graph:
        captured.append(len(operands))
        return Graph(seconds * call)

    monkeypatch.setattr(every_algorithm, "graph_of", graph_of)
    screened = every_algorithm.screened({"ours": 1, "torch": 2}, range(9))  # type: ignore[dict-item, arg-type]
    assert screened == {"ours": pytest.approx(2 * seconds), "torch": pytest.approx(4 * seconds)}
    assert captured == [1, calls, calls]


def test_long_graphs_have_fewer_rounds() -> None:
    assert [every_algorithm.rounds_of(seconds) for seconds in (1e-4, 0.024, 1.0)] == [9, 6, 5]


def test_an_algorithm_that_refuses_is_no_side() -> None:
    def refuses(operands: Any) -> None:
        raise RuntimeError("cublasLtMatmul answers 15")

    assert not every_algorithm.accepts(refuses, SimpleNamespace())
    assert every_algorithm.accepts(lambda operands: None, SimpleNamespace())
