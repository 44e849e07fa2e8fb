from __future__ import annotations

import json

import pytest

from tilewright_generator.cli import invoke as run_cli
from tilewright_generator.families.gemm import run as gemm_run

SHAPE = ["-m", "512", "-n", "4096", "-k", "4096"]


def test_dry_run_says_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "gemm", *SHAPE, "--dtype", "fp8", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ran"] is False
    assert answer["reason"] is None
    assert answer["tactic"].startswith("gemm_sm90_e4m3_e4m3_f32_bf16_tn")
    seconds = [candidate["seconds"] for candidate in answer["candidates"] if not candidate["built"]]
    assert seconds == sorted(seconds)


def test_without_a_gpu_it_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gemm_run, "_missing", lambda: "there is no CUDA GPU here")
    assert run_cli(["run", "gemm", *SHAPE]) == 1
    text = capsys.readouterr().out
    assert "Nothing was run: there is no CUDA GPU here." in text
    assert "would run gemm_sm90_bf16" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "fp3"], "one of bf16"),
        (["--out-dtype", "s32"], "gives bf16 or f32"),
        (["--kernel", "gemm_nothing"], "no table lists a kernel named gemm_nothing"),
        (["--kernel", "x@splits=0"], "splits is 0"),
        (["--layout", "tq"], "tq"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run_cli(["run", "gemm", *SHAPE, "--dry-run", *options]) == 2
    assert message in capsys.readouterr().err
