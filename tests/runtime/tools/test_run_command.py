from __future__ import annotations

import json

import pytest

from tilewright_generator.cli import invoke as run_cli
from tilewright_generator.cli import running

SHAPE = ["-m", "512", "-n", "4096", "-k", "4096"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "missing", lambda: "there is no CUDA GPU here")


def test_without_a_gpu_it_says_what_would_run_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "gemm", *SHAPE]) == 1
    text = capsys.readouterr().out
    assert "Nothing was run: there is no CUDA GPU here." in text
    assert "An NVIDIA H200 would run gemm_sm90_bf16" in text


def test_json_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "gemm", *SHAPE, "--dtype", "fp8", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ran"] is False
    assert answer["reason"] == "there is no CUDA GPU here"
    assert answer["tactic"].startswith("gemm_sm90_e4m3_e4m3_f32_bf16_tn")


def test_a_tactic_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "blockscaled_gemm", *SHAPE, "--formats", "mxfp8xmxfp4"]
    assert run_cli([*command, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    other = next(row for row in answer["candidates"] if row["tactic"] != answer["tactic"])["tactic"]
    assert run_cli([*command, "--kernel", other]) == 1
    text = capsys.readouterr().out
    assert f"would run {other}" in text
    assert "Why (demanded)" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "fp3"], "one of bf16"),
        (["--out-dtype", "s32"], "--out-dtype s32: expected one of bf16, f32 for bf16"),
        (["--kernel", "gemm_nothing"], "no table lists a kernel named gemm_nothing"),
        (["--kernel", "x@splits=0"], "splits is 0"),
        (["--layout", "tq"], "--layout tq: expected one of tn, tt, nn, nt"),
        (["-m", "0"], "-m 0: expected a number from 1"),
        (["-m", "x"], "'-m': 'x' is not a valid integer"),
        (["--batch", str(2**31)], "--batch 2147483648: expected a number from 1 to 1073741824"),
        (["--fast-accum"], "--fast-accum not supported for bf16"),
        (["--x", "bf16"], "No such option '--x'"),
        (["--n", "8"], "No such option '--n'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run_cli(["run", "gemm", *SHAPE, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--formats", "fp4"], "one or two of nvfp4"),
        (["--formats", ""], "one or two of nvfp4"),
        (["--formats", "nvfp4xmxfp4"], "nvfp4 has blocks of 16 and mxfp4 of 32"),
        (["--out-dtype", "s32"], "one of bf16"),
        (["-k", "33"], "-k 33: expected a multiple of 2"),
        (["--kernel", "x@cluster=3"], "cluster is '3'"),
    ],
)
def test_usage_errors_of_block_scaled_runs(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run_cli(["run", "blockscaled_gemm", *SHAPE, *options]) == 2
    assert message in capsys.readouterr().err


def test_quantising(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "quantize", "-m", "129", "-k", "4096"]
    assert run_cli([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problem"]["global_scale"] == "tensor"
    more = ["--format", "mxfp4", "--x", "f16", "--fusion", "rmsnorm", "--groups", "3", "--layout", "linear"]
    assert run_cli([*command, *more]) == 1
    text = capsys.readouterr().out
    assert "quantize 129x4096 in 3 groups f16 -> mxfp4, scales linear, rmsnorm" in text
    assert "would run quantize_sm90_mxfp4_f16_rmsnorm" in text
    assert run_cli([*command, "--dequantize"]) == 1
    assert "would run dequantize_sm90_nvfp4_bf16" in capsys.readouterr().out
    for options, message in (
        (["--format", "nvfp5"], "--formats nvfp5: expected one of nvfp4"),
        (["--x", "e4m3", "--format", "mxfp8"], "--x e4m3: expected one of bf16, f16, f32 for mxfp8"),
        (["--layout", "m_major"], "m_major: expected one of 128x4, 8x4, linear for nvfp4"),
    ):
        assert run_cli([*command, *options]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gem"], "no family 'gem'; did you mean 'gemm'?"),
        (["scaled_gemm", *SHAPE], "no family 'scaled_gemm'; scaled_gemm is an op of grouped_gemm"),
        (["zzz"], "no family 'zzz'; there are: blockscaled_gemm, blockscaled_grouped_gemm, gemm, "),
        (SHAPE, "-m before a family; for example: tilewright run gemm -m 64 -n 4096 -k 4096"),
    ],
)
def test_what_is_no_family(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run_cli(["run", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "missing"), [((), "-m, -n, -k"), (("-n", "8"), "-m, -k"), (("-m8", "-n=8", "-k8"), None)]
)
def test_all_missing_options_are_named(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], missing: str | None
) -> None:
    assert run_cli(["run", "gemm", *given]) == 2
    error = capsys.readouterr().err
    example = "for example: tilewright run gemm -m 64 -n 4096 -k 4096"
    assert (f"missing options {missing}; {example}" in error) is (missing is not None)
