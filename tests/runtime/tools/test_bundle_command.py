"""`tilewright bundle`: what it lists, chooses, writes and refuses. Builds are tested with host kernels
(tests/runtime/bundle)."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright import bundle
from tilewright.architectures.device import H200
from tilewright.base import writing
from tilewright.bundle import manifest
from tilewright.context import Context
from tilewright.errors import BundleError, UnreadableFileError
from tilewright.families.gemm.problem import Problem
from tilewright.selection.families import family_of
from tilewright.tools.bundling import problems_file
from tilewright_generator.cli import invoke, running

EXAMPLES = Path(__file__).parents[3] / "examples/models"
PROBLEMS = [
    {"layer": "up", "problem": "gemm bf16 n=256 k=512", "m": "1..5", "count": 3},
    {"layer": "wide", "problem": "gemm bf16 n=256 k=512", "m": "64..192/64"},
    {"problem": "grouped_gemm fp8 n=256 k=512 groups=4 grouping=rows_valid m=64", "expected_m": "0..2"},
    {"layer": "tiny", "problem": "hc_prenorm n=24 k=512", "m": 8},
]


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.yaml"
    path.write_text(yaml.safe_dump({"problems": PROBLEMS}))
    return path


def bundled(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = invoke(["bundle", "--gpu", "h200", *map(str, words)])
    return code, *capsys.readouterr()


def test_a_dry_run_lists_products_and_times_of_some_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = bundled(capsys, "--model", EXAMPLES / "qwen3-8b.json", "--dry-run")
    assert code == 0
    assert "qkv_proj: 36 times n 6144, k 4096: gemm bf16 x bf16 -> bf16, layout tn" in out
    assert "by the model, m of 1: " in out
    assert "without --dry-run, every value is asked for" in err
    code, out, _ = bundled(
        capsys, "--model", EXAMPLES / "deepseek-v3.json", "--tp", "8", "--ep", "8", "--dry-run", "--json"
    )
    answer = json.loads(out)
    assert code == 0
    assert not answer["left_out"]
    (o_proj,) = [each for each in answer["problems"] if each["layers"] == ["o_proj"]]
    assert o_proj["op"] == "tilewright.scaled_gemm"
    assert o_proj["count"] == 61
    assert set(o_proj["predicted"]) == {"1", "16", "128", "1024", "8192"}
    assert o_proj["predicted"]["8192"]["microseconds"] > o_proj["predicted"]["1"]["microseconds"] > 0
    assert not list(tmp_path.iterdir())


def test_the_list_and_the_report_are_written_without_a_build(
    problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bundle"
    words = ("--problems", problems, "--no-build", "--prove", "-j", "1", "-o", folder, "--json")
    code, out, err = bundled(capsys, *words)
    assert code == 0
    assert "proved: the library chooses the bundle's tactic for every value" in err
    answer = json.loads(out)
    assert answer == json.loads((folder / "report.json").read_text())
    assert answer["values"] == 5 + 3 + 3 + 1
    assert [each["values"] for each in answer["problems"]] == [[1, 5, 1], [64, 192, 64], [0, 2, 1], [8, 8, 1]]
    assert answer["problems"][0]["count"] == 3
    content = manifest.read(folder)
    assert list(content.kernels) == sorted(answer["kernels"])
    family, library = family_of("gemm"), Context()
    (first, second, *_) = content.entries
    for entry in (first, second):
        for m in entry.values:
            chosen = library.select(family, Problem(m, 256, 512), H200)
            assert content.tactics[entry.number(m)] == str(chosen.tactic)
    report = (folder / "report.md").read_text()
    assert "4 problems, " in report
    assert "| wide | `gemm` | n 256, k 512: gemm bf16 x bf16 -> bf16, layout tn | m 64 to 192" in report
    with pytest.raises(BundleError, match="no library of sm90_gemm_lean holds"):
        bundle.load(folder)


def test_a_folder_that_a_full_disk_left_is_written_anew(
    problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write = tmp_path / "bundle", writing.write

    def full(path: Path, data: str) -> None:
        if path.name == "report.json":
            raise OSError(28, "No space left on device", str(path))
        write(path, data)

    words = ("--problems", problems, "--no-build", "-j", "1", "-o", folder)
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write", full)
        code, _, err = bundled(capsys, *words)
    assert code == 2
    assert f"{folder / 'report.json'}: No space left on device" in err
    assert bundled(capsys, *words)[0] == 0


def test_the_mode_that_a_variable_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "problems.yaml", tmp_path / "bundle"
    path.write_text(yaml.safe_dump({"problems": PROBLEMS[:1]}))
    monkeypatch.setenv("TILEWRIGHT_BATCH_INVARIANT", "1")
    assert bundled(capsys, "--problems", path, "--no-build", "-o", folder)[0] == 0
    assert manifest.read(folder).batch_invariant


def test_what_no_kernel_computes_is_left_to_the_caller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "problems.yaml"
    path.write_text("problems:\n- {layer: odd, problem: grouped_gemm fp8 n=9 k=512, m: 1}\n")
    code, out, _ = bundled(capsys, "--problems", path, "--dry-run")
    assert code == 0
    assert "left to the caller: odd" in out
    assert "no grouped_gemm kernel computes" in out
    code, _, err = bundled(capsys, "--problems", path, "--no-build", "-j", "1", "-o", tmp_path / "none")
    assert code == 2
    assert "no kernel computes any of its products" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no problems: expected --model config.json, or a list of --problems"),
        (("--model", str(EXAMPLES / "qwen3-8b.json")), "-o: not given"),
        (
            ("--model", str(EXAMPLES / "qwen3-8b.json"), "--dry-run", "--tp", "3"),
            "--tp 3: expected a divisor of the heads (32)",
        ),
        (("--max-tokens", "99999999999"), "'--max-tokens': 99999999999 is not in the range 1<=x<=16777215"),
        (("--model", "nothing.json", "--dry-run"), "nothing.json: no such file"),
        (("--measure", "--dry-run"), "--measure runs the kernels of a bundle, and --dry-run builds none"),
        (("--prove", "--dry-run"), "--prove compares the choices of a bundle, and --dry-run makes none"),
        (("--problems", "x.yaml", "--dry-run", "--tp", "2"), "--tp is about a --model, and none is given"),
        (("--problems", "x.yaml", "-o", "x", "--max-tokens", "8"), "--max-tokens is about a --model"),
        (
            ("--model", str(EXAMPLES / "qwen3-8b.json"), "--dry-run", "--ep", "2"),
            "--ep 2: expected 1, because a model of type qwen3 has no experts",
        ),
        (
            ("--model", str(EXAMPLES / "deepseek-v3.json"), "--dry-run", "--ep", "3"),
            "--ep 3: expected a divisor of the number of experts (256)",
        ),
        (("--measure", "--no-build", "-o", "x"), "--measure runs the kernels of a bundle, and --no-build"),
    ],
)
def test_usage(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = () if words else ("--dry-run",)
    code, _, err = bundled(capsys, *words, *output)
    assert code == 2
    assert message in err


def test_measuring_needs_a_gpu(
    problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so before it builds anything."""
    monkeypatch.setattr(running, "missing", lambda: "there is no CUDA GPU here")
    code, out, err = bundled(capsys, "--problems", problems, "--measure", "-o", tmp_path / "bundle")
    assert (code, out) == (1, "")
    assert "--measure runs the bundle on its GPU: there is no CUDA GPU here" in err
    assert not (tmp_path / "bundle").exists()


def test_a_problem_is_measured_at_both_ends_and_where_reports_predict(
    problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from tilewright.tools.bundling import measuring  # noqa: PLC0415 (needs torch)

    folder = tmp_path / "bundle"
    assert bundled(capsys, "--problems", problems, "--no-build", "-j", "1", "-o", folder)[0] == 0
    values = [measuring.values_of(entry) for entry in manifest.read(folder).entries]
    assert values == [[1, 5], [64, 128, 192], [0, 1, 2], [8]]


def test_a_folder_of_other_files_stays(
    problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = bundled(capsys, "--problems", problems, "--no-build", "-o", tmp_path)
    assert code == 2
    assert f"{tmp_path} holds files and is no bundle" in err
    assert [path.name for path in tmp_path.iterdir()] == ["problems.yaml"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "expected a mapping with `problem: FAMILY WORDS...`"),
        ({"problem": "gemm bf16 n=8 k=8"}, "expected one of m, n, k, batch, which varies"),
        (
            {"problem": "gemm bf16 n=8 k=8", "m": "5-9"},
            'm: expected FIRST..LAST or FIRST..LAST/STEP, got "5-9"',
        ),
        ({"problem": "gemm bf16 n=8 k=8", "m": "9..5"}, "m: expected FIRST up to LAST"),
        ({"problem": "gemm bf16 n=8", "m": 4}, "k: not given"),
        ({"problem": "gem bf16 n=8 k=8", "m": 4}, "did you mean 'gemm'"),
        ({"problem": "gemm bf16 n=8 k=8", "m": 4, "count": 0}, "count: expected a whole number from 1"),
        ({"problem": "gemm bf16 n=8 k=8", "m": 4, "k": 5}, 'got "k", "m"'),
        ({"problem": "gemm bf16 n=8 k=8", "m": 4, "layer": "a | b"}, "layer: expected one line of text"),
        ({"problem": "gemm bf16 n=8 k=8", "m": 4, "layer": "a\nb"}, "layer: expected one line of text"),
    ],
)
def test_a_wrong_item_of_a_list_is_named(item: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "problems.yaml"
    path.write_text(yaml.safe_dump({"problems": [PROBLEMS[0], item]}))
    with pytest.raises(UnreadableFileError) as wrong:
        problems_file.read(path)
    assert f"{path}: problems, item 2: " in wrong.value.message
    assert message in wrong.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"m": "5" * 9000},
        {"m": date(2026, 11, 29)},
        {"count": ["5" * 9000]},
        {"layer": "a|" * 9000},
        {"problem": "gemm bf16 " + "k=8 " * 3000},
        {f"extent{number}": 1 for number in range(900)},
    ],
    ids=["value", "date", "count", "layer", "problem", "extents"],
)
def test_a_message_about_a_list_is_short(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "problems.yaml"
    path.write_text(yaml.safe_dump({"problems": [{"problem": "gemm bf16 n=8 k=8", "m": 1, **change}]}))
    with pytest.raises(UnreadableFileError) as wrong:
        problems_file.read(path)
    assert len(wrong.value.reason) < 300


def test_a_list_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "problems.yaml"
    path.write_text("layers: []\n")
    with pytest.raises(UnreadableFileError, match="expected a list `problems:`"):
        problems_file.read(path)
