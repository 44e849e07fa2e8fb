"""`tilewright build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_modules import Mini

from tilewright.build.library import libraries
from tilewright.build.store import Store
from tilewright.build.toolchain import Toolchain
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


@pytest.mark.compile
def test_a_filter_a_module_and_everything(project: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    two_modules(project)
    store = Store(tmp_path / "cache")
    result = run("--filter", "tile=64x*", "--filter", "bias=true", "--filter", "t*", "--json")
    assert result.exit_code == 0, result.output
    assert [kernel["name"] for kernel in json.loads(result.stdout)["kernels"]] == ["three"]
    assert set(libraries("beta", store=store)[0].kernels) == {"three"}
    assert libraries("alpha", store=store) == []

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
def test_a_failure_exits_1_and_still_reports(project: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    Mini(project / "generated").add("one", instructions=["HGMMA"]).table()
    result = run("--report", tmp_path / "report.json")
    assert result.exit_code == 1
    assert "one: wrong path: its SASS has no HGMMA" in result.stderr
    assert (
        json.loads((tmp_path / "report.json").read_text())["kernels"][0]["findings"][0]["kind"]
        == "wrong_path"
    )


def test_usage_errors_exit_2_and_help(
    project: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = run()
    assert (empty.exit_code, "tilewright generate" in empty.stderr) == (2, True)
    two_modules(project)
    for arguments, said in (
        (["alpah"], "did you mean 'alpha'"),
        (["--filter", "tyle=64x*"], "did you mean 'tile'"),
        (["--filter", "nothing*"], "no kernel meets --filter nothing*"),
    ):
        assert cli.invoke(["build", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_a_dry_run_lists_what_it_would_compile(project: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    two_modules(project)
    result = run("--dry-run", "--root", project)
    assert result.exit_code == 0
    assert "missing  one" in result.stdout
    assert "0 cached, 3 to compile" in result.stdout
    assert not (tmp_path / "cache" / "objects").exists()
