"""Tuning many problems, with kernels that run on the host and processes that really end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hanging
import host_tuning
import pytest
import torch
from host_tuning import PROBLEMS, HostSite

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError, StoreError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.selection import tuned_files
from tilewright.tools.sharding.engine import Local
from tilewright.tools.tuning import tuning
from tilewright.tools.tuning.search import Result

Run = Callable[..., list[Result]]


@pytest.fixture
def book(host: Context, tmp_path: Path) -> tuning.Book:
    return open_book(host, tmp_path / "nvidia_h200" / "gemm.json")


def open_book(host: Context, path: Path) -> tuning.Book:
    return tuning.Book(path, host_tuning.header(host.registry), FAMILY)


@pytest.fixture
def run(host_generated: Path, host_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Tunes problems in processes of their own."""
    hung = tmp_path / "hung"
    hung.mkdir()
    monkeypatch.setenv(hanging.FOLDER, str(hung))

    def tune(problems: list[Problem], book: Any, *, places: int = 1, **ends: str) -> Any:
        named = {"plain": "host_bf16_tn", "split": "host_bf16_tn_streamk@decomposition=stream_k"}
        site = HostSite(
            host_generated, host_library, tuple((named[kernel], how) for kernel, how in ends.items())
        )
        engine = Local(range(places), 3, hanging.Clock(hung))
        try:
            return list(tuning.tune_problems(problems, engine, site, book=book))
        finally:
            engine.close()

    return tune


def entries(path: Path) -> dict[tuple[int, int, int], str]:
    actual = {}
    for section in tuned_files.read(path).sections:
        for row in section.rows:
            actual[row["m"], row["n"], row["k"]] = row["tactic"]
    return actual


def test_results_of_two_processes_are_in_the_file(run: Run, host: Context, book: tuning.Book) -> None:
    problems = PROBLEMS[:6]
    registry = host.registry
    assert tuning.Known(book.path, FAMILY, registry).standing(problems) == set()
    results = run(problems, book, places=2)
    assert {result.problem for result in results} == set(problems)
    assert all(result.tactic is not None and result.seconds and result.tried > 1 for result in results)
    actual = {
        (result.problem.m, result.problem.n, result.problem.k): str(result.tactic) for result in results
    }
    assert entries(book.path) == actual
    assert tuning.Known(book.path, FAMILY, registry).standing(PROBLEMS) == set(problems)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("killed", "exit code -9"),
        ("lost", "an illegal memory access"),
        ("hangs", "its process was silent for 3 s"),
    ],
)
def test_a_tactic_that_ends_its_process_is_a_failure_of_its_problem(
    run: Run, book: tuning.Book, how: str, why: str
) -> None:
    """The problem goes on in another process without it, and so do the others."""
    results = run(PROBLEMS[2:4], book, plain=how)
    for result in results:
        assert result.tactic is not None
        assert result.tactic.kernel == "host_bf16_tn_streamk"
        (failure,) = result.failures
        assert failure.tactic == Tactic("host_bf16_tn")
        assert why in (failure.failure or "")
    assert len(entries(book.path)) == len(results) == 2


def test_a_problem_that_costs_too_many_processes_is_given_up(
    run: Run, book: tuning.Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "MOST_LOSSES", 2)
    results = {result.problem: result for result in run(PROBLEMS[2:4], book, plain="killed", split="killed")}
    for result in results.values():
        assert result.tactic is None
        assert len(result.failures) == 2
        assert "given up after 2 processes" in (result.reason or "")
    assert entries(book.path) == {}


def test_what_a_process_raises_ends_the_tuning(host_generated: Path, tmp_path: Path) -> None:
    engine = Local([0])
    try:
        site = HostSite(tmp_path / "nothing", tmp_path / "nothing.so")
        with pytest.raises(tilewright.TilewrightError, match="nothing is no folder"):
            list(tuning.tune_problems(PROBLEMS[:1], engine, site, book=None))
    finally:
        engine.close()


def test_a_file_of_another_machine_is_refused_before_anything_is_measured(
    host: Context, tmp_path: Path
) -> None:
    path = tmp_path / "gemm.json"
    open_book(host, path)
    text = path.read_text().replace("NVIDIA H200", "NVIDIA H100")
    path.write_text(text)
    with pytest.raises(ForeignTunedFileError, match="its GPU is NVIDIA H100") as caught:
        open_book(host, path)
    assert "--out" in str(caught.value)
    assert path.read_text() == text


def test_a_damaged_file_is_set_aside(host: Context, tmp_path: Path) -> None:
    path = tmp_path / "gemm.json"
    path.write_text('{"format": 1, "family": "ge')
    book = open_book(host, path)
    (message,) = book.messages
    assert "gemm.json.broken-1" in message
    assert (tmp_path / "gemm.json.broken-1").read_text() == '{"format": 1, "family": "ge'
    assert tuning.Known(path, FAMILY, host.registry).standing(PROBLEMS) == set()


def test_a_folder_that_cannot_be_written_is_told_before(host: Context, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        open_book(host, tmp_path / "file" / "gemm.json")


def clocks(family: str, device: Any) -> Any:
    return lambda problem: host_tuning.HostClock(problem, {})


def operands(m: int) -> tuple[Any, Any]:
    return torch.randn(m, 64).bfloat16(), torch.randn(48, 64).bfloat16().T


def test_within_the_block_ops_tune_what_they_meet(host: Context, tmp_path: Path) -> None:
    path = tmp_path / "x" / "gemm.json"
    a, b = operands(32)
    tilewright.gemm(a, b)  # chosen and remembered before
    problem = Problem(32, 48, 64)
    assert host.select(FAMILY, problem, H200).source == "model"
    with tilewright.tune(file=path, clocks=clocks) as session:
        first = tilewright.gemm(a, b)
        tilewright.gemm(a, b)
        tilewright.gemm(a[:16], b)
        (plan,) = [plan for plan in host.plans.values() if plan.problem == problem]
    assert [result.problem.m for result in session.results] == [32, 16]
    assert host.tuner is None
    best = session.results[0].tactic
    assert plan.tactic == best
    assert (first.double() - a.double() @ b.double()).norm() < 4e-3 * (a.double() @ b.double()).norm()
    choice = host.select(FAMILY, problem, H200)
    assert (choice.source, choice.tactic) == ("tuned", best)
    assert len(entries(path)) == 2


def test_again_and_from_the_file(host: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path))
    a, b = operands(8)
    with tilewright.tune(clocks=clocks) as session:
        tilewright.gemm(a, b)
    (result,) = session.results
    assert entries(tmp_path / "nvidia_h200" / "gemm.json") == {(8, 48, 64): str(result.tactic)}
    with contexts.use(Context(host.registry, described=H200)) as fresh:
        with tilewright.tune(clocks=clocks) as known:
            tilewright.gemm(a, b)
        assert known.results == []
        assert fresh.select(FAMILY, result.problem, H200).tactic == result.tactic
        with tilewright.tune(clocks=clocks, again=True) as repeated:
            tilewright.gemm(a, b)
            tilewright.gemm(a, b, out=torch.empty(8, 64, dtype=a.dtype)[:, :48])  # another plan
        assert len(repeated.results) == 1


def test_nothing_is_written_where_it_is_not_wanted(
    host: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path))
    a, b = operands(8)
    with tilewright.tune(write=False, clocks=clocks) as session:
        tilewright.gemm(a, b)
    assert list(tmp_path.iterdir()) == []
    choice = host.select(FAMILY, session.results[0].problem, H200)
    assert (choice.source, choice.tactic) == ("tuned", session.results[0].tactic)


def test_a_demanded_tactic_is_not_tuned(host: Context) -> None:
    a, b = operands(8)
    with tilewright.tune(write=False, clocks=clocks) as session:
        tilewright.gemm(a, b, tactic="host_bf16_tn")
    assert session.results == []


def test_the_results_read_as_json(run: Run, book: tuning.Book) -> None:
    """What a worker sends can be told: names of tactics, and numbers."""
    (result,) = run(PROBLEMS[:1], book)
    assert json.loads(json.dumps({"tactic": str(result.tactic), "us": result.seconds}))


def test_problems_with_c_and_bias_are_tuned_with_them(host: Context) -> None:
    """What is timed and checked has them too."""
    a, b = operands(16)
    c, bias = torch.randn(16, 48).bfloat16(), torch.randn(48).bfloat16()
    met = []

    def making(family: str, device: Any) -> Any:
        def make(problem: Problem) -> Any:
            met.append(problem)
            clock = host_tuning.HostClock(problem, {})
            clock._operands.c, clock._operands.bias = c, bias
            return clock

        return make

    with tilewright.tune(write=False, clocks=making) as session:
        tilewright.gemm(a, b, c=c, beta=0.5, bias=bias)
    (problem,) = met
    assert (problem.c, problem.bias) == (True, True)
    (result,) = session.results
    assert result.tactic is not None, result.failures
    assert not result.failures
