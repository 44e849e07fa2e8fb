"""Tuning as it is: real kernels, real times, the command and the block."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import context as contexts
from tilewright.base import paths
from tilewright.context import Context
from tilewright.errors import WrongResultError
from tilewright.families.gemm import measuring as gemm_measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.selection import tuned_files
from tilewright.tools import measuring, timing
from tilewright.tools.tuning.clock import GpuClock
from tilewright_generator.cli import invoke

PROBLEMS = [Problem(16, 4096, 7168), Problem(512, 2048, 2048), Problem(1024, 1024, 1024)]
SIZES = [word for one in PROBLEMS for word in ("-s", f"{one.m}x{one.n}x{one.k}")]


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))


@pytest.fixture
def context() -> Context:
    """A fresh one, with two kernels at least to choose from."""
    context = Context()
    device = context.device(torch.cuda.current_device())
    fitting = FAMILY.fitting(context.registry.route("gemm", device), PROBLEMS[0])
    if sum(map(context.registry.is_built, fitting)) < 2:
        pytest.skip("too few bf16 kernels are built for this GPU: run `tilewright build sm90_gemm_lean`")
    return context


@pytest.mark.usefixtures("context")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "x.json"
    assert invoke(["tune", *SIZES, "--built-only", "--results", str(record)]) == 0, capsys.readouterr().err
    results = {one["problem"]["m"]: one for one in json.loads(record.read_text())["results"]}
    assert set(results) == {16, 512, 1024}
    with contexts.use(Context()) as fresh:
        device = fresh.device(torch.cuda.current_device())
        path = paths.tuned_file(tmp_path / "tuned", device.name, "gemm")
        assert sum(len(section.rows) for section in tuned_files.read(path).sections) == 3
        for problem in PROBLEMS:
            actual = results[problem.m]
            choice = fresh.select(FAMILY, problem, device)
            assert (choice.source, str(choice.tactic)) == ("tuned", actual["tactic"])
            operands = measuring.make_operands(gemm_measuring, problem, device)
            measuring.checked(operands[0])
            again = measuring.seconds(operands) * 1e6
            assert again == pytest.approx(actual["us"], rel=0.3)
            if actual["model_us"] is not None:
                assert actual["us"] <= 1.1 * actual["model_us"], "the model's first was timed, too"
    capsys.readouterr()
    assert invoke(["tune", *SIZES, "--built-only"]) == 0
    assert "nothing is left to tune" in capsys.readouterr().out


def test_the_block(context: Context) -> None:
    a = torch.randn(64, 2048, device="cuda").bfloat16()
    b = torch.randn(1024, 2048, device="cuda").bfloat16().T
    with contexts.use(context):
        before = tilewright.gemm(a, b)
        with tilewright.tune(write=False) as session:
            within = tilewright.gemm(a, b)
        after = tilewright.gemm(a, b)
        (result,) = session.results
        assert result.tactic is not None, result.reason
        assert not any(one.wrong for one in result.failures)
        choice = context.select(FAMILY, result.problem, context.device(a.device.index))
        assert (choice.source, choice.tactic) == ("tuned", result.tactic)
    expected = a.double() @ b.double()
    for actual in (before, within, after):
        assert float((actual.double() - expected).norm() / expected.norm()) < 4e-3


def test_nothing_is_tuned_while_a_graph_is_captured(context: Context) -> None:
    a = torch.randn(64, 512, device="cuda").bfloat16()
    b = torch.randn(512, 512, device="cuda").bfloat16().T
    with contexts.use(context):
        tilewright.gemm(a, b)  # loads the kernel
        graph = torch.cuda.CUDAGraph()
        with tilewright.tune(write=False) as session, torch.cuda.graph(graph):
            out = tilewright.gemm(a, b)
        graph.replay()
        assert session.results == []
        assert "a CUDA graph is being captured" in session.messages[0]
    expected = a.double() @ b.double()
    assert float((out.double() - expected).norm() / expected.norm()) < 4e-3


def test_the_clock_agrees_with_the_benchmarks(context: Context) -> None:
    problem = PROBLEMS[1]
    with contexts.use(context):
        device = context.device(torch.cuda.current_device())
        tactic = context.select(FAMILY, problem, device).tactic
        clock = GpuClock("gemm", problem, device, seed=0)
        clock.verify(tactic)
        operands = measuring.make_operands(gemm_measuring, problem, device)
        expected = measuring.seconds(operands, tactic)
        assert clock.quick(tactic, float("inf")) == pytest.approx(expected, rel=0.2)
        assert clock.again(tactic) == pytest.approx(expected, rel=0.2)
        assert clock.quick(tactic, expected / 10) > expected / 10
        assert len({one.a.data_ptr() for one in operands}) == len(operands)
        assert torch.equal(operands[0].a, operands[-1].a)
        assert len(operands) >= timing.rotations(problem.bytes, device.l2_bytes)


def test_what_is_measured_has_the_c_of_its_problem(context: Context) -> None:
    problem = Problem(64, 1024, 512, c=True)
    with contexts.use(context):
        device = context.device(torch.cuda.current_device())
        operands = measuring.make_operands(gemm_measuring, problem, device)
        assert measuring.checked(operands[0]) < 4e-3
        operands[0].poison()
        operands[0].changed(c=None, beta=0.0).call()  # into the same D
        with pytest.raises(WrongResultError):
            operands[0].check()
