"""Options of `tilewright tune`: what they exclude, and what a dry run says without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tuned_sizes import SHAPES, SIZES, tune, written
from tuning_lines import problem_lines

from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.selection import tuned_files
from tilewright.tools.tuning.stages import Options
from tilewright_generator.cli.tuning_place import Place
from tilewright_generator.cli.tuning_plan import TuningPlan
from tilewright_generator.errors import UsageError


def test_a_dry_run_counts_what_the_model_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--sizes", SHAPES, "--dry-run", "--device", "h200") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "149 problems of gemm bf16 x bf16 -> bf16, layout tn on NVIDIA H200"
    assert "  0 of them have an entry there" in lines
    listed = problem_lines(lines)
    assert len(listed) == 149
    for line in listed:
        fit, left = map(int, line.rpartition(": ")[2].split(", "))
        assert 10 <= left <= min(40, fit)
    assert tune("--sizes", SHAPES, "--dry-run", "--device", "h200", "--exhaustive") == 0
    listed = problem_lines(capsys.readouterr().out.splitlines())
    assert all(len(set(line.rpartition(": ")[2].split(", "))) == 1 for line in listed)


def test_a_dry_run_and_a_report_of_a_file_need_no_torch(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'tilewright[report]')")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright_generator.cli import invoke\n"
        "print(invoke(['tune', '-s', '8x4096x4096', '--dry-run', '--device', 'h200']))\n"
        "print(invoke(['tune', '-s', '8x4096x4096']))\n"
        f"print(invoke(['tune', '--report', {str(tmp_path / 'x.html')!r}, '--device', 'h200']))\n"
    )
    environment = {**os.environ, "TILEWRIGHT_TUNED": str(written(tmp_path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert [line for line in done.stdout.splitlines() if len(line) == 1] == ["0", "1", "0"], done.stderr
    assert "nothing was tuned: torch is not installed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected problems"),
        (["x.json"], "expected problems"),
        ([*SIZES, "x.json"], "read by --report and --merge alone"),
        ([*SIZES, "--keep", "3", "--exhaustive"], "--keep and --exhaustive exclude each other"),
        ([*SIZES, "--build", "--built-only"], "--build and --built-only exclude each other"),
        ([*SIZES, "--ray", "--gpus", "0"], "--ray and --gpus exclude each other"),
        ([*SIZES, "--dry-run", "--gpus", "x"], "--gpus: expected numbers with commas between them"),
        ([*SIZES, "--dry-run", "--gpus", ""], "--gpus: expected numbers"),
        ([*SIZES, "--dry-run", "--gpus", "0,-1"], "--gpus: expected numbers"),
        ([*SIZES, "--dry-run", "--gpus", "0,0"], "--gpus 0,0: expected different numbers"),
        ([*SIZES, "--again", "--only-new"], "--again and --only-new exclude each other"),
        ([*SIZES, "--device", "h200"], "--device describes a GPU"),
        ([*SIZES, "--merge", "x.json"], "read by"),
        (["--merge"], "--merge takes tuned FILEs"),
        (["--merge", "nofile.json"], "there is no file nofile.json"),
        (["--report", "x.html", "nofile.json"], "there is no file nofile.json"),
        ([*SIZES, "--dry-run", "--results", "x.json"], "a dry run has nothing to write"),
        ([*SIZES, "--results", "/nowhere/x.json"], "there is no folder /nowhere"),
        ([*SIZES, "--dtype", "fp3"], "one of bf16"),
        (["--sizes", "tiny"], "tiny: expected one of"),
        ([*SIZES, "--keep", "0"], "--keep"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert tune(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_counts_an_incumbent_and_unseen_kernels_alone(host: Context) -> None:
    problem = Problem(16, 48, 64)
    records = host.registry.route("gemm", H200)
    seen = frozenset(record.name for record in FAMILY.of_kind(host.registry, records, problem.kind))
    tactic = FAMILY.rank(records, problem, H200)[0].tactic

    def left(*, incumbents: dict[Problem, tuned_files.Entry]) -> int:
        plan = TuningPlan(
            FAMILY, host.registry, H200, Path("x.json"), Options(), incumbents,
            again=False, build=False, built_only=False,
        )  # fmt: skip
        return int(plan.as_json([problem])["problems"][0]["left"])

    assert left(incumbents={}) > 1
    assert left(incumbents={problem: tuned_files.Entry(problem, tactic, 1e-5, seen)}) == 1


def test_a_gpu_is_named_once(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(Context, "device", lambda self, index: H200)
    assert Place.of_here("1,0", host).name == "NVIDIA H200 1, 0"
    with pytest.raises(UsageError, match="--gpus 0,0: expected different numbers"):
        Place.of_here("0,0", host)
    with pytest.raises(
        UsageError, match="--gpus 0,2: expected numbers from 0 to 1, the GPUs of this machine"
    ):
        Place.of_here("0,2", host)
