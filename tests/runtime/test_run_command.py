from __future__ import annotations

import json

import pytest

from tilewright.device import DESCRIBED
from tilewright_generator.cli import invoke as run_cli
from tilewright_generator.families import running

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
    monkeypatch.setattr(running, "missing", lambda: "there is no CUDA GPU here")
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


@pytest.mark.parametrize(
    ("formats", "device", "start"),
    [
        ("nvfp4", "b200", "blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16"),
        ("mxfp8xmxfp4", "b300", "blockscaled_gemm_sm100f_mxfp8_mxfp4_bf16"),
        ("mxfp4xmxfp8", "gb10", "blockscaled_gemm_sm120f_mxfp4_mxfp8_bf16"),
        ("mxfp8xmxfp8", "rtx-pro-6000", "blockscaled_gemm_sm120f_mxfp8_mxfp8_bf16"),
        ("nvfp4", "thor", "blockscaled_gemm_sm110"),
    ],
)
def test_block_scaled_kernels_for_described_gpus(
    capsys: pytest.CaptureFixture[str], formats: str, device: str, start: str
) -> None:
    command = ["run", "blockscaled_gemm", *SHAPE, "--formats", formats, "--device", device]
    assert run_cli([*command, "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tactic"].startswith(start)
    assert answer["candidates"]
    assert run_cli([*command, "--dry-run", "--kernel", answer["tactic"]]) == 0
    assert f"would run {answer['tactic']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--formats", "fp4"], "one or two of nvfp4"),
        (["--formats", ""], "one or two of nvfp4"),
        (["--formats", "nvfp4xmxfp4"], "nvfp4 has blocks of 16 and mxfp4 of 32"),
        (["--out-dtype", "s32"], "one of bf16"),
        (["-k", "33"], "k is even"),
        (["--kernel", "x@cluster=3"], "cluster is '3'"),
        (["--device", "b100"], "b100"),
    ],
)
def test_usage_errors_of_block_scaled_runs(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    command = ["run", "blockscaled_gemm", *SHAPE, "--device", "b200", "--dry-run", *options]
    assert run_cli(command) == 2
    assert message in capsys.readouterr().err


def test_the_gpus_of_a_dry_run_are_those_described() -> None:
    assert set(running._DEVICES) == set(DESCRIBED)
