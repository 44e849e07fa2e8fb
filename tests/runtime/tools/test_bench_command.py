"""`tilewright bench compare` as a user calls it; where it would measure, the cost model answers for a GPU."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.compile import library
from tilewright.declarations import catalog
from tilewright.errors import NoKernelError
from tilewright.families.gemm.family import FAMILY
from tilewright.libraries.registry import Registry
from tilewright.tools.benchmarking import groups as benchmarked
from tilewright_generator.cli import bench, running
from tilewright_generator.cli import invoke as run_cli

ULTRA = ["arch=sm103 k_tile=768", "rest"]


def compare(*arguments: Any) -> int:
    return run_cli(["bench", "compare", *map(str, arguments)])


def test_a_dry_run_lists_groups_and_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*ULTRA, "--dry-run", "--device", "b300", "--sizes", "small", "-s", "512x8192x28672") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("blockscaled_gemm nvfp4 x nvfp4 -> bf16: problems, and how many tactics ")
    assert (
        "sm103_k_tile768 (arch=sm103 k_tile=768): blockscaled_gemm kernels: 77, that run on NVIDIA B300: 77, "
        "that compute such problems: 41, built: "
    ) in lines[8]
    assert any(
        line.startswith("  blockscaled_gemm_sm103_nvfp4_nvfp4_bf16_128x192x768_dyn_2sm") for line in lines
    )
    (rest,) = [line for line in lines if line.startswith("rest: ")]
    arches = [record.arch for record in Registry().kernels("blockscaled_gemm")]
    on_b300 = sum(arch in {"sm_100f", "sm_103a", "sm_103f"} for arch in arches)
    text = f"blockscaled_gemm kernels: {len(arches) - 77}, that run on NVIDIA B300: {on_b300 - 77}, "
    assert text in rest
    (elsewhere,) = [line for line in lines if line.startswith("  do not run there: ")]
    assert "48 (sm_90a)" in elsewhere
    assert sum(line.startswith("  compute something else: ") for line in lines) == 2
    listed = lines[1:8]
    assert [line.split()[0] for line in listed] == [
        *(f"{m}x4096x7168:" for m in (1, 4, 8, 16, 32, 64)), "512x8192x28672:",
    ]  # fmt: skip
    assert all(int(count) > 0 for line in listed for count in (line.split()[-1], line.split()[-3].strip(",")))


@pytest.mark.parametrize(
    ("family", "device", "size"),
    [("quantize", "h200", "8192x8192"), ("gemm", "h200", "512x4096x4096"), ("blockscaled_gemm", "b300", "")],
)
def test_kernels_that_run_only_if_named_are_compared(
    capsys: pytest.CaptureFixture[str], family: str, device: str, size: str
) -> None:
    """Compares kernels in CuTe-DSL with the others, although selection takes none of them."""
    sizes = ["-s", size] if size else ["--sizes", "small"]
    groups = ["compiler=cute_dsl", "rest", "--family", family]
    assert compare(*groups, *sizes, "--dry-run", "--device", device) == 0
    line = capsys.readouterr().out.splitlines()[1]
    (in_cute_dsl, rest) = line.partition(": ")[2].split(", ")
    assert in_cute_dsl.startswith("cute_dsl ")
    assert int(in_cute_dsl.split()[-1]) > 0
    assert int(rest.split()[-1]) > 0


def test_a_dry_run_without_a_gpu_counts_what_runs_somewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "missing", lambda: "there is no CUDA GPU here")
    assert compare("schedule=pingpong", "schedule=pingpong,cooperative", "--family", "gemm", "--dry-run") == 0
    text = capsys.readouterr().out
    assert "that run on some GPU (there is none here): " in text
    assert "In both groups: " in text


def test_without_a_gpu_it_says_so_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "missing", lambda: "there is no CUDA GPU here")
    assert compare(*ULTRA) == 1
    output = capsys.readouterr()
    assert (output.out, "nothing was measured: there is no CUDA GPU here" in output.err) == ("", True)


def test_a_dry_run_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright_generator.cli import invoke\n"
        "ultra = ['bench', 'compare', 'arch=sm103 k_tile=768', 'rest']\n"
        "print(invoke([*ultra, '--dry-run', '--device', 'b300']), invoke(ultra))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 1"
    assert "nothing was measured: torch is not installed" in done.stderr


# CUTLASS's kernels of groups are launched when the kernel before them has ended: they have no such field.
WITH_PDL = [name for name in catalog.names() if name != "blockscaled_grouped_gemm"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arch=sm104", "rest"], "no kernel meets arch=sm104; arch is one of: sm_100a, sm_100f"),
        (["k_tile=768 n_tile=100", "rest"], "n_tile is one of: 8, 16"),
        (["k_tiel=768", "rest"], "no field 'k_tiel'; did you mean 'k_tile'?"),
        (["ultra", "rest"], "no kernel meets ultra"),
        (
            ["pdl=true", "rest"],
            f"takes kernels of {', '.join(WITH_PDL)}: --family says which",
        ),
        (["k_tile=768", "arch=sm_100f", "--family", "gemm"], "no kernel meets k_tile=768"),
        (["k_tile=768", "layout=tn"], "no field 'layout'"),
        (["rest", "k_tile=768"], "only B can be it"),
        (["", "rest"], "at least one term"),
        (["*", "rest", "--family", "gemm"], "leaves none for `rest`"),
        ([*ULTRA, "--sizes", "tiny"], "tiny: expected one of small, medium, large, all"),
        ([*ULTRA, "-s", "1x"], "'1x': expected MxNxK"),
        ([*ULTRA, "--dtype", "bf16"], "bf16: expected one or two of nvfp4"),
        ([*ULTRA, "--labels", "a", "a"], "both are 'a'"),
        ([*ULTRA, "--build", "--built-only"], "exclude each other"),
        ([*ULTRA, "--device", "b300"], "describes a GPU for --dry-run"),
        ([*ULTRA, "--csv", "/nowhere/x.csv"], "there is no folder /nowhere"),
        ([*ULTRA, "--dry-run", "--results", "x.json"], "a dry run has nothing to write"),
        ([*ULTRA, "--iters", "0"], "--iters"),
        (["k_tile=768"], "Missing argument 'B'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert compare(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def project(tmp_path: Path, row: Callable[..., Any], table: Callable[..., Path]) -> Path:
    """A project with three kernels of sm_90a and one of sm_100a, of which `unbuilt` is not built."""
    (tmp_path / "specs").mkdir()
    rows = [
        row("wide", tile=[128, 256, 64]),
        row("narrow", tile=[64, 32, 64], schedule="pingpong"),
        row("unbuilt", tile=[128, 128, 64], scheduler="stream_k"),
        row("future", tile=[256, 256, 64], arch="sm_100a"),
    ]
    table(tmp_path / "generated", "kernels", rows)
    return tmp_path


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, built: Any, tmp_path: Path) -> None:
    """An H200 whose kernels take what the cost model says; every one of `narrow` fails on the second size."""
    pytest.importorskip("torch")
    from tilewright.tools.benchmarking import measuring  # noqa: PLC0415 (it imports torch)

    def on_gpu(family: str, device: DeviceProperties, iters: int, seed: int) -> Any:
        assert (family, device, iters, seed) == ("gemm", H200, 7, 3)

        def meter(problem: Any) -> Callable[[Any], float]:
            def seconds(tactic: Any) -> float:
                if tactic.kernel == "narrow" and problem.m == 4096:
                    raise NoKernelError("too narrow")
                record = current.record(tactic.kernel)
                return FAMILY.estimator(record, problem, device)(tactic).seconds

            return seconds

        return meter

    current = Registry(tmp_path / "generated")
    monkeypatch.setattr(running, "missing", lambda: None)
    monkeypatch.setattr(bench, "_device", lambda *_: H200)
    monkeypatch.setattr(library, "libraries", lambda *_, **__: [built(tmp_path / "x.so", ("unbuilt",))])
    monkeypatch.setattr(measuring, "on_gpu", on_gpu)


MEASURED = ["--iters", "7", "--seed", "3", "-s", "16x4096x7168", "-s", "4096x4096x4096"]


@pytest.mark.usefixtures("gpu")
def test_a_whole_comparison(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--csv", project / "x.csv", "--results", project / "x.json"]
    arguments = ["wide", "narrow", "--labels", "wide", "thin", "--root", project, *MEASURED, *files]
    assert compare(*arguments, "--list-tactics") == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert "  thin: failed  narrow: too narrow" in lines
    assert any(line.startswith("  wide:") and line.endswith("TFLOP/s  wide") for line in lines)
    assert lines[-1].startswith("Speed-up of wide over thin (thin's time over wide's): geomean ")
    assert lines[-1].endswith("of 1; 1 without a result on both sides")
    assert (
        "[2/2] gemm 4096x4096x4096 bf16 x bf16 -> bf16, layout tn: 1 and 1 tactics, no result" in output.err
    )
    assert f"wrote {project / 'x.csv'}\nwrote {project / 'x.json'}\n" in output.err
    rows = list(csv.DictReader((project / "x.csv").open()))
    assert [(row["m"], row["wide_tactic"], row["thin_tactic"]) for row in rows] == [
        ("16", "wide", "narrow"),
        ("4096", "wide", ""),
    ]
    assert float(rows[0]["speedup"]) == pytest.approx(
        float(rows[0]["thin_ms"]) / float(rows[0]["wide_ms"]), rel=1e-2
    )
    record = json.loads((project / "x.json").read_text())
    assert (record["device"], record["capability"], record["family"]) == ("NVIDIA H200", "9.0", "gemm")
    assert {"driver", "torch", "cuda", "date", "method"} <= set(record)
    assert record["settings"]["iters"] == 7
    assert record["groups"]["b"]["measured"] == ["narrow"]
    assert record["problems"][1]["b"]["failed"][0]["reason"] == "too narrow"
    assert record["problems"][0]["a"]["tactics"][0]["tactic"] == "wide"


@pytest.mark.usefixtures("gpu")
def test_kernels_that_are_not_built(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is built unasked; --built-only leaves them out, but not all of a group; --build builds them."""
    asked: list[str] = []
    monkeypatch.setattr(
        benchmarked, "build", lambda records, _: asked.extend(record.name for record in records)
    )
    arguments = ["--root", project, *MEASURED]
    assert compare("wide", "rest", *arguments) == 1
    said = capsys.readouterr().err
    assert "not built: 1 of 2 kernels of rest" in said
    assert "tilewright build kernels --filter unbuilt" in said
    assert "or --built-only to go without them" in said
    assert compare("wide", "rest", *arguments, "--built-only") == 0
    output = capsys.readouterr()
    assert "left out, as --built-only says: not built: 1 of 2 kernels of rest" in output.err
    assert "narrow" in output.out
    assert compare("wide", "unbuilt", *arguments, "--built-only") == 1
    said = capsys.readouterr().err
    assert "not built: 1 of 1 kernels of unbuilt" in said
    assert "--build to build them now." in said, "--built-only leaves nothing of a group"
    assert asked == []
    assert compare("wide", "unbuilt", *arguments, "--build") == 1  # what was to build it did not
    assert asked == ["unbuilt"]


@pytest.mark.usefixtures("gpu")
def test_kernels_of_another_gpu(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("wide", "arch=sm100", "--root", project, *MEASURED) == 1
    assert "none of the 1 kernels of sm100 (arch=sm100) runs on NVIDIA H200" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_nothing_on_both_sides_is_a_failure(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--root", project, "--iters", "7", "--seed", "3", "-s", "4096x4096x4096"]
    assert compare("wide", "narrow", *arguments) == 1
    assert "No problem was measured on both sides." in capsys.readouterr().out


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("wrong", "code"), [("wide", 1), ("narrow", 1), ("neither", 0)])
def test_a_wrong_result_of_either_side_is_a_failure(
    project: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, code: int
) -> None:
    from tilewright.errors import WrongResultError  # noqa: PLC0415
    from tilewright.tools.benchmarking import measuring  # noqa: PLC0415 (it imports torch)

    def on_gpu(*_: Any) -> Any:
        def meter(problem: Any) -> Callable[[Any], float]:
            def seconds(tactic: Any) -> float:
                if tactic.kernel == wrong and problem.m == 4096:
                    raise WrongResultError("an element is off")
                return 1e-5

            return seconds

        return meter

    monkeypatch.setattr(measuring, "on_gpu", on_gpu)
    assert compare("wide", "narrow", "--root", project, *MEASURED) == code


@pytest.mark.usefixtures("gpu")
def test_what_was_measured_before_an_error_is_kept(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.errors import GpuLostError  # noqa: PLC0415
    from tilewright.tools.benchmarking import measuring  # noqa: PLC0415 (it imports torch)

    def on_gpu(*_: Any) -> Any:
        def meter(problem: Any) -> Callable[[Any], float]:
            if problem.m == 4096:
                raise GpuLostError("wide broke the CUDA context")
            return lambda tactic: 1e-5

        return meter

    monkeypatch.setattr(measuring, "on_gpu", on_gpu)
    assert compare("wide", "narrow", "--root", project, *MEASURED, "--csv", project / "x.csv") == 1
    output = capsys.readouterr()
    assert "wide broke the CUDA context" in output.err
    assert "geomean 1.000" in output.out
    assert len((project / "x.csv").read_text().splitlines()) == 2
