"""`tilewright explain --problem`: the tactic, the candidates, and why."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from quantize_rows import HOST_QUANTIZE_ROWS

from tilewright.architectures import device as devices
from tilewright.architectures.device import DESCRIBED, H200, THOR
from tilewright.context import Context
from tilewright.declarations import catalog
from tilewright.errors import NoKernelError, UnsupportedDeviceError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools.explaining import SHOWN, explain
from tilewright_generator import families
from tilewright_generator.cli import common
from tilewright_generator.cli import invoke as run_cli
from tilewright_generator.fields import fields_of

ODD = ["gemm", "bf16", "m=32", "n=5112", "k=25592"]  # of no model, so that nobody has tuned it
SHAPE = ["m=512", "n=4096", "k=4096"]


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run_cli(["explain", "--problem", "--json", *words]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_it_prints_candidates_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", "--problem", *ODD, "--device", "h200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gemm 32x5112x25592 bf16 x bf16 -> bf16, layout tn"
    assert lines[1].startswith("An NVIDIA H200 would run gemm_sm90_bf16")
    assert lines[2].startswith("Why (model): the model's first")
    shown = [line for line in lines if " us, bound by " in line]
    assert SHOWN <= len(shown) <= SHOWN + 1  # and the chosen one, where it stands further down
    assert [line.startswith(">") for line in shown].count(True) == 1
    assert any("its a is e4m3, not bf16" in line for line in lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_the_kernels_that_are_left_out_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The first ten reasons have their lines, the rest share one."""
    words = ["gemm", "bf16", *SHAPE, "--device", "h200"]
    total = sum(row["kernels"] for row in asked(capsys, *words)["left_out"])
    assert run_cli(["explain", "--problem", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index(f"Left out: {total} kernels")
    counts = [int(line[:7]) for line in lines[begin + 1 :] if line[:7].strip().isdigit()]
    assert (len(counts), sum(counts)) == (SHOWN + 1, total)
    assert lines[-1].endswith("further reasons (--json lists all)")


@pytest.mark.parametrize(("k", "bound"), [(1, "overhead"), (1 << 17, "math")])
def test_what_bounds_a_small_and_a_large_product(
    capsys: pytest.CaptureFixture[str], k: int, bound: str
) -> None:
    size = 1 if k == 1 else 8192
    words = [f"m={size}", f"n={size}", f"k={k}"]
    assert run_cli(["explain", "--problem", "gemm", "bf16", *words, "--device", "h200"]) == 0
    lines = [line.split(" us, bound by ") for line in capsys.readouterr().out.splitlines()]
    assert {line[1].split()[0] for line in lines if len(line) == 2} == {bound}


def test_the_mode_that_a_variable_asks_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["gemm", "bf16", "m=64", "n=256", "k=22400", "--device", "h200"]
    free = asked(capsys, *words)
    assert (free["order"], free["free"]) == ("", None)
    monkeypatch.setenv("TILEWRIGHT_BATCH_INVARIANT", "1")
    invariant = asked(capsys, *words)
    assert invariant["order"].startswith("every m has 4 ranges of k")
    assert invariant["free"]["tactic"] == free["tactic"]


def test_json_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, *ODD, "--device", "h200")
    ranked = FAMILY.rank(Registry().route("gemm", H200), Problem(32, 5112, 25592), H200)
    assert [row["tactic"] for row in answer["candidates"]] == [str(candidate.tactic) for candidate in ranked]
    assert [row["seconds"] for row in answer["candidates"]] == [
        candidate.estimate.seconds for candidate in ranked
    ]
    assert answer["tactic"] in {row["tactic"] for row in answer["candidates"]}
    assert answer["source"] == "model"
    left_out = sum(reason["kernels"] for reason in answer["left_out"])
    assert left_out + len({candidate.record.name for candidate in ranked}) == len(
        Registry().route("gemm", H200)
    )


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
    answer = asked(capsys, "blockscaled_gemm", formats, *SHAPE, "--device", device)
    assert answer["tactic"].startswith(start)
    assert answer["device"] == DESCRIBED[device].name
    assert answer["candidates"]


def test_words_of_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(
        capsys, "gemm", "fp8", *SHAPE, "out_dtype=f16", "fast_accum=true", "batch=3", "--device", "h200"
    )
    asked_for = answer["problem"]
    assert (asked_for["a"], asked_for["d"], asked_for["batch"]) == ("e4m3", "f16", 3)
    assert asked_for["fast_accum"] is True
    answer = asked(capsys, "gemm", *SHAPE, "bias=true", "activation=gelu", "--device", "h200")
    assert answer["problem"]["bias"] is True
    assert "_act" in answer["tactic"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["gemmm", *SHAPE],
            f"begins with gemmm; expected one of {', '.join(catalog.names())}; did you mean 'gemm'?",
        ),
        (["gemm", "bf16", "m=1", "n=8"], "k not given; for example: gemm bf16 m=64 n=4096 k=4096"),
        (["quantize"], "m, k not given; for example: quantize nvfp4 m="),
        (["gemm", "bf16", "8192x28672x8192"], "has 8192x28672x8192; extents have names: m=64 n=4096"),
        (["scaled_gemm", *SHAPE], "transpose_fp8; scaled_gemm is an op of grouped_gemm"),
        (["gemm", "bf16", "m=0", "n=8", "k=8"], "m 0: expected a number from 1"),
        (["gemm", "bf16", *SHAPE, "m=3"], "m given twice"),
        (["gemm", "bf16", "m", "n=8", "k=8"], "problem has m without a value; expected NAME=VALUE"),
        (
            ["hc_prenorm", "m=4", "n=24", "k=7168", "splits=2", "normalize=true"],
            "splits is 2; a norm needs the sum of all k",
        ),
        (["gemm", "bf16", "f16", *SHAPE], "names types twice: bf16 and f16"),
        (["gemm", "", *SHAPE], "one of bf16"),
        (["gemm", "bf16", "", *SHAPE], "names types twice: bf16 and"),
        (["", *SHAPE], "begins with"),
        (["gemm", "fp3", *SHAPE], "one of bf16"),
        (["gemm", *SHAPE, "fast_accum=yes"], "fast_accum yes: expected true or false"),
        (["gemm", *SHAPE, "stages=3"], "stages is no part of a problem"),
        (["gemm", *SHAPE, "d=f32"], "d is no part of a problem; there are"),
        (["gemm", *SHAPE, "activation=swish"], "activation swish: expected one of none, relu, gelu, silu"),
        (
            ["gemm", "s8", *SHAPE, "activation=gelu"],
            "expected one of none, relu for s8; did you mean 'relu'?",
        ),
        (["gemm", *SHAPE, "x=bf16"], "x is no part of a problem; there are m, n, k"),
        (["gemm", "bf17", *SHAPE], "gemm bf17: expected one of bf16"),
        (["gemm", "m=1", "n=8", "kk=8"], "kk is no part of a problem; there are m, n, k, batch,"),
        (["gemm", *SHAPE, "layout=128x4"], "layout 128x4: expected one of tn"),
        (["gemm", *SHAPE, "out_dtype=s32"], "out_dtype s32: expected one of bf16, f32 for bf16"),
        (["blockscaled_gemm", "nvfp5", *SHAPE], "blockscaled_gemm nvfp5: expected one or two of nvfp4"),
        (
            ["blockscaled_gemm", "m=1", "n=8", "k=15"],
            "k 15: expected a multiple of 2; two elements",
        ),
        (["quantize", "m=1", "k=24"], "k 24: expected a multiple of 16"),
        (
            ["quantize", "m=1", "k=64", "direction=back"],
            "direction back: expected one of quantize, dequantize",
        ),
        (
            ["quantize", "m=1", "k=64", "fusion=silu"],
            "fusion silu: expected one of none, silu_mul, rmsnorm; did you",
        ),
        (
            ["quantize", "m=1", "k=64", "global_scale=3"],
            "3: expected one of tensor, row, none for nvfp4",
        ),
        (["quantize", "m=1", "k=64", "fast=true"], "fast is no part of a problem; there are m, k, groups"),
        (["quantize", *SHAPE], "n is no part of a problem"),
        (["gemm", "m="], "problem has m=; expected NAME=VALUE, as in: m=64 n=4096 k=4096"),
        (["gemm", "=3"], "problem has =3; expected NAME=VALUE"),
        (
            ["quantize", "m=1", "k=64", "format=mxfp4"],
            "format is no part of a problem; there are m, k, groups",
        ),
        (["quantize", "m=1", "k=64", "fusion=gelu"], "fusion gelu: expected one of none, silu_mul, rmsnorm"),
        (["reduced_gemm", *SHAPE, "--device", "b200"], "no reduced_gemm kernel runs on NVIDIA B200"),
        (["gemm", *SHAPE, "--device", "b100"], "b100"),
        (["gemm", *SHAPE, "--spec", __file__], "--spec says nothing of a problem"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run_cli(["explain", "--problem", "--device", "h200", *words]) == 2
    assert message in capsys.readouterr().err


def test_where_no_kernel_fits_what_differs_least_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gemm", "fp8", *SHAPE, "layout=nn", "--device", "h200"]
    assert run_cli(["explain", "--problem", *words]) == 2
    said = capsys.readouterr().err
    _, first, second, *_ = said.splitlines()
    assert first.endswith("kernels: its layout is tn, not nn")
    assert int(first.split()[0]) < int(second.split()[0]), "there are more of others"
    assert "`tilewright explain gemm`" in said


def test_a_problem_without_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", "gemm", "bf16", *SHAPE]) == 2
    assert f"`tilewright explain --problem gemm bf16 {' '.join(SHAPE)}`" in capsys.readouterr().err


def test_a_device_without_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", "gemm", "--device", "h200"]) == 2
    assert "--device says for which GPU a --problem is" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted({*common.DEVICE.choices, *DESCRIBED}))
def test_every_described_device_may_be_asked_about(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a tactic, or that no kernel of the family runs there."""
    run_cli(["explain", "--problem", "gemm", "bf16", *SHAPE, "--device", name])
    assert DESCRIBED[name].name in "".join(capsys.readouterr())


def test_without_a_driver_torch_is_not_asked_for_a_gpu() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright_generator.cli import invoke\n"
        f"sys.exit(invoke({['explain', '--problem', *ODD]!r}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    if devices.driver() is None:
        assert "An NVIDIA H200 would run" in run.stdout


def test_what_the_op_pads(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gemm", "tf32", "m=32", "n=5121", "k=25601", "--device", "h200"]
    answer = asked(capsys, *words)
    padded = answer["copied"]["problem"]
    assert (answer["problem"]["n"], padded["n"], padded["k"]) == (5121, 5124, 25604)
    assert answer["copied"]["arguments"] == ["a", "b", "out"]
    assert answer["candidates"]
    assert run_cli(["explain", "--problem", *words]) == 0
    assert "The op copies a, b, out; a kernel computes\ngemm 32x5124x25604 tf32" in capsys.readouterr().out
    words[1] = "bf16"  # whose kernels take any extents
    assert asked(capsys, *words)["copied"] is None
    assert asked(capsys, "gemm", *SHAPE, "--device", "h200")["copied"] is None


def test_what_a_blockscaled_op_pads(capsys: pytest.CaptureFixture[str]) -> None:
    for words, device, k, n, arguments in (
        (("nvfp4", "m=128", "n=4095", "k=4112"), "h200", 4128, 4095, ["a", "b"]),
        (("nvfp4", "m=128", "n=4095", "k=4112"), "b200", 4128, 4096, ["a", "b", "out"]),
        (("mxfp8", "m=128", "n=4096", "k=4100", "batch=2"), "h200", 4128, 4096, ["a", "b"]),
        (("mxfp8xmxfp4", "m=64", "n=4096", "k=4160"), "b200", 4224, 4096, ["a", "b"]),
    ):
        answer = asked(capsys, "blockscaled_gemm", *words, "--device", device)
        padded = answer["copied"]["problem"]
        assert (padded["k"], padded["n"], answer["copied"]["arguments"]) == (k, n, arguments), words
        assert answer["candidates"]
    as_it_is = ("blockscaled_gemm", "mxfp8", "m=2", "n=72", "k=4128", "batch=3")
    assert asked(capsys, *as_it_is, "--device", "h200")["copied"] is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gemm", "bf16", "m=32", "n=5120", "k=250"], "Rows of a and b .*: each call copies a and b unless"),
        (
            ["gemm", "fp8", "m=32", "n=5120", "k=250"],
            "Rows of a and b .*: a call raises AlignmentError unless",
        ),
        (["gemm", "bf16", "m=32", "n=5124", "k=256", "layout=tt"], "Rows of b .*: each call copies b unless"),
        (["gemm", "bf16", "m=1", "n=5120", "k=250"], "Rows of b .*: each call copies b unless"),
        (["gemm", "fp8", "m=32", "n=5120", "k=256"], ""),
        (["grouped_gemm", "m=37", "n=4096", "k=4096"], ""),
    ],
)
def test_rows_that_tma_cannot_read_without_padding(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    said = asked(capsys, *words, "--device", "h200")["unpadded"]
    assert re.match(expected, said) if expected else said == ""
    assert run_cli(["explain", "--problem", *words, "--device", "h200"]) == 0
    assert ("without padding" in capsys.readouterr().out) == bool(expected)


def test_without_torch_both_ways_of_unpadded_rows_are_named() -> None:
    words = ["explain", "--problem", "gemm", "bf16", "m=32", "n=5120", "k=250", "--device", "h200"]
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright_generator.cli import invoke\n"
        f"sys.exit(invoke({words!r}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bytes: a call copies them, or raises AlignmentError.\n" in result.stdout


def test_what_the_op_does_not_copy(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_cli(["explain", "--problem", "gemm", "s8", "m=32", "n=5120", "k=25601", "--device", "h200"]) == 2
    )
    message = capsys.readouterr().err
    assert "no gemm kernel computes" in message
    assert "Operands of 8 bits are never copied" in message


@pytest.mark.parametrize("family", catalog.names())
def test_targets_are_the_generators(family: str) -> None:
    """The targets that the runtime knows of a family are those that its specs may name."""
    arch = fields_of(families.get(family))["arch"]
    assert "|".join(catalog.targets_of(family)) == arch.values != ""


def test_a_gpu_that_a_family_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", "--problem", "reduced_gemm", *SHAPE, "--device", "b300"]) == 2
    message = capsys.readouterr().err
    assert "sm_103a" not in message
    assert "The rules of reduced_gemm know no target of this GPU (they know sm_90a, sm_120a, " in message
    families = "blockscaled_gemm, blockscaled_grouped_gemm, gemm, grouped_gemm, hc_prenorm, mqa_logits"
    others = f"{families}, quantize, scale_columns, transpose_fp8"
    assert f"There are kernels of {others} for this GPU." in message


def test_a_gpu_whose_target_a_spec_may_name(table: Any, tmp_path: Path) -> None:
    from tilewright.families.quantize.family import FAMILY as QUANTIZE  # noqa: PLC0415

    table(tmp_path, "m", HOST_QUANTIZE_ROWS, family="quantize")
    here = Context(Registry(tmp_path, libraries=lambda module: []))
    with pytest.raises(UnsupportedDeviceError) as caught:
        explain(here, QUANTIZE, QUANTIZE.problem(512, 4096), THOR)
    assert "`arch: sm_110a`" in caught.value.hint


def test_a_kind_that_has_no_kernel(table: Any, tmp_path: Path) -> None:
    """Where there is no call, the op is asked what it copies without one."""
    pytest.importorskip("torch")
    from tilewright.families.quantize.family import FAMILY as QUANTIZE  # noqa: PLC0415

    rows = [row for row in HOST_QUANTIZE_ROWS if row["config"]["format"] == "nvfp4"]
    table(tmp_path, "m", rows, family="quantize")
    problem = QUANTIZE.problem(512, 4096, format="fp8_1x128", layout="m_major")
    with pytest.raises(NoKernelError, match=f"no quantize kernel computes {problem}"):
        explain(Context(Registry(tmp_path, libraries=lambda module: [])), QUANTIZE, problem, H200)
