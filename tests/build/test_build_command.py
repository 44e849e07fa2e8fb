"""`tilewright build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
from tilewright.libraries.registry import Registry
from tilewright_generator import cli
from tilewright_generator.cli.build import command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return root


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def two_modules(project: Path) -> None:
    Mini(project / "generated", "alpha").add("one", config={"tile": [64, 16, 128], "bias": True}).table()
    other = Mini(project / "generated", "beta").add("two", config={"tile": [128, 16, 64], "bias": False})
    other.add(
        "three", 'extern "C" __global__ void {name}() {{}}', config={"tile": [64, 8, 64], "bias": True}
    ).table()


def everything(folder: Path) -> dict[Path, tuple[int, int]]:
    """Inode and time of modification of all that stands in a folder, and of itself."""
    actual = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in actual.items()}


@pytest.mark.compile
def test_a_filter_a_module_and_everything(project: Path, toolchain: NvccToolchain, tmp_path: Path) -> None:
    two_modules(project)
    assert run("--dry-run").exit_code == 0
    assert not (tmp_path / "cache").exists(), "a dry run makes no cache"
    store = Store(tmp_path / "cache")
    result = run("--filter", "tile=64x*", "--filter", "bias=true", "--filter", "t*", "--json")
    assert result.exit_code == 0, result.output
    assert [kernel["name"] for kernel in json.loads(result.stdout)["kernels"]] == ["three"]
    assert set(libraries("beta", store=store)[0].kernels) == {"three"}
    assert libraries("alpha", store=store) == []

    for digest in (tmp_path / "cache" / "digests").iterdir():
        digest.unlink()
    before = everything(tmp_path / "cache")
    assert "1 cached, 1 to compile" in run("--dry-run", "beta").stdout
    assert everything(tmp_path / "cache") == before, "a dry run writes nothing, not even a digest"

    result = run("beta")
    assert result.exit_code == 0
    assert "1 built, 1 cached" in result.stdout
    assert "beta: 2 kernels in" in result.stdout

    report = tmp_path / "report.json"
    result = run("--report", report, "--strict")
    assert result.exit_code == 0
    data = json.loads(report.read_text())
    assert [(kernel["name"], kernel["status"]) for kernel in data["kernels"]] == [
        ("one", "built"),
        ("two", "cached"),
        ("three", "cached"),
    ]
    assert data["toolchain"]["nvcc"]
    assert data["kernels"][0]["registers"] > 0


@pytest.mark.compile
def test_a_failure_exits_1_and_still_reports(project: Path, toolchain: NvccToolchain, tmp_path: Path) -> None:
    Mini(project / "generated").add("one", instructions=["HGMMA"]).table()
    result = run("--report", tmp_path / "report.json")
    assert result.exit_code == 1
    assert "one: wrong path: its SASS has no HGMMA" in result.stderr
    assert (
        json.loads((tmp_path / "report.json").read_text())["kernels"][0]["findings"][0]["kind"]
        == "wrong_path"
    )


def test_usage_errors_exit_2_and_help(
    project: Path, toolchain: NvccToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = run()
    assert (empty.exit_code, "tilewright generate" in empty.stderr) == (2, True)
    two_modules(project)
    for arguments, said in (
        (["alpah"], "did you mean 'alpha'"),
        (["mini"], "mini is a family, of alpha, beta"),
        (["--filter", "tyle=64x*"], "did you mean 'tile'"),
        (["--filter", "nothing*"], "no kernel meets --filter nothing*"),
    ):
        assert cli.invoke(["build", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_what_the_specs_make_and_nobody_has_generated_is_told(
    project: Path, toolchain: NvccToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    two_modules(project)
    group = "configs:\n  - {a: bf16, b: bf16, d: bf16, tile: 128x128x64}\n"
    (project / "specs" / "mine.yaml").write_text(f"family: gemm\narch: sm_90a\n{group}")
    for arguments, made in (
        (["--filter", "*_128x128x64_*"], True),
        (["--filter", "*_64x64x64_*"], False),
        (["mine"], True),
        (["yours"], False),
    ):
        assert cli.invoke(["build", *arguments]) == 2
        said = capsys.readouterr().err
        assert ("the specs make it: run `tilewright generate` first" in said) == made, said


def test_a_dry_run_lists_what_it_would_compile(
    project: Path, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    two_modules(project)
    result = run("--dry-run", "--root", project)
    assert result.exit_code == 0
    assert "missing  one" in result.stdout
    assert "0 cached, 3 to compile" in result.stdout
    assert not (tmp_path / "cache").exists()


def test_it_says_whose_kernels_and_takes_no_others_unasked(
    project: Path, toolchain: NvccToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_modules(project)
    monkeypatch.delenv("TILEWRIGHT_GENERATED", raising=False)
    inside = run("--dry-run", "--json")
    assert f"kernels of {project}/generated" in inside.stderr
    assert [kernel["name"] for kernel in json.loads(inside.stdout)["kernels"]] == ["one", "two", "three"]

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    outside = run("--dry-run")
    assert (outside.exit_code, outside.stdout) == (2, "")
    assert "no project here" in outside.stderr
    assert "or --shipped for the kernels that come with tilewright" in outside.stderr
    ours = paths.shipped_generated_dir()
    table = Table.read(ours / "quantize/table.json")
    asked = run("--dry-run", "--shipped", "quantize", "--filter", next(iter(table)))
    assert asked.exit_code == 0, asked.output
    assert f"kernels of {ours}\n" in asked.stderr
    assert run("--shipped", "--root", project).exit_code == 2
    monkeypatch.setenv("TILEWRIGHT_GENERATED", str(project / "generated"))
    named = run("--dry-run")
    assert f"kernels of {project}/generated" in named.stderr
    assert "3 to compile" in named.stdout
    shipped = run("--dry-run", "--shipped", "quantize", "--filter", next(iter(table)))
    assert f"kernels of {ours}\n" in shipped.stderr  # whatever the variable says
    mistyped = run("--dry-run", "--root", tmp_path / "mistyped")
    assert (mistyped.exit_code, mistyped.stdout) == (2, "")
    assert "mistyped: no such directory" in mistyped.stderr


def test_what_a_call_says_builds_the_kernel_that_it_means(
    project: Path, toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    two_modules(project)
    ours = Registry(paths.shipped_generated_dir())
    for registry, words in (
        (Registry(project / "generated"), "tilewright build --filter "),
        (ours, "tilewright build --shipped --filter "),
    ):
        record = next(iter(next(iter(registry.tables.values())).values()))
        assert words in str(registry.not_built(record).hint)
