"""The README's commands are run as they stand, in a copy of the repository."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import readme_line

from tilewright.architectures.table import ARCHITECTURES
from tilewright.compile.nvcc.toolchain import MINIMUM_NVCC
from tilewright.declarations import catalog
from tilewright_generator.project import Project
from tilewright_generator.status import CURRENT, RECORDED, STALE, Verdict, cutlass_version
from tilewright_generator.status import verdicts as verdicts_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDED = ("specs", "templates", "generated", "runtime/include")


def blocks(text: str, language: str) -> list[tuple[str, str]]:
    """(mark, code) of each block: ```sh MARK."""
    return [(mark, code) for actual, mark, code in _BLOCK.findall(text) if actual == language]


INSTALL, *SHELL = blocks(README, "sh")
TOUR = SHELL[1:]


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tour")
    for name in NEEDED:
        shutil.copytree(ROOT / name, folder / name)
    readme_line.remove(folder, lambda: run("tilewright generate", folder))
    return folder


@pytest.fixture(scope="module")
def tour(copy: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every command that needs neither a compiler nor a GPU, in order, by its code."""
    return {code: run(code, copy) for mark, code in TOUR if mark == ""}


def test_the_spec_that_the_readme_begins_with_makes_four_kernels(tmp_path: Path) -> None:
    ((_, spec),) = blocks(README, "yaml")
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "mine.yaml").write_text(spec, encoding="utf-8")
    done = run("tilewright generate && tilewright list", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "each of these four kernels" in README
    assert "4 units to compile" in done.stdout
    assert "mine: 4 kernels" in done.stdout


def test_families_are_counted() -> None:
    _, _, families = README.partition("## Families of kernels")
    rows = re.findall(r"^\| `(\w+)` \| `", families, re.MULTILINE)
    assert sorted(rows) == catalog.names()
    assert f"{len(rows)} families of kernels come with it" in README


def test_two_commands_set_everything_up() -> None:
    assert SHELL[0] == ("", "make run\nmake test\n")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^run:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_what_is_installed_is_there() -> None:
    """The pip line takes this folder, with extras that it has."""
    mark, code = INSTALL
    assert mark == "install"
    (extras,) = re.findall(r"^pip install '\.\[([\w,]+)\]'$", code, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras.split(","))


def row(first: str) -> str:
    (line,) = re.findall(rf"^\| {first} \|.*$", README, re.MULTILINE)
    return str(line)


def test_the_support_matrix_says_what_the_code_says() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (python,) = re.findall(r'^requires-python = ">=([\d.]+)"', project, re.MULTILINE)
    (torch,) = re.findall(r'^torch = \["torch>=([\d.]+)"', project, re.MULTILINE)
    (nvcc,) = re.findall(r'"nvidia-cuda-nvcc==([\d.]+)"', project)
    assert f"| {python} or later |" in row("Python")
    assert f"| {torch} or later;" in row("torch")
    assert f"| {nvcc} | {'.'.join(map(str, MINIMUM_NVCC))} or later |" in row("nvcc")
    assert f"| {cutlass_version(Project.find(ROOT))} |" in row("CUTLASS")
    record = json.loads((ROOT / "benchmarks/results/gpu/h200.json").read_text(encoding="utf-8"))
    assert f"| {record['driver'].rpartition('.')[0]} |" in row("driver")
    capabilities = [".".join(map(str, known.capability)) for known in ARCHITECTURES]
    assert all(capability in row("GPU") for capability in capabilities)
    assert record["gpu"].removeprefix("NVIDIA ") == row("GPU").split("|")[2].strip()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Verdict]]:
    """What the committed records say of each module's kernels."""
    return dict(verdicts_of(Project.find(ROOT)))


def test_kernels_are_counted(verdicts: dict[str, list[Verdict]]) -> None:
    """By the committed records, which the README's table adds up."""
    counts: dict[str, Counter[str]] = {"Hopper": Counter(), "Blackwell": Counter()}
    for verdict in itertools.chain(*verdicts.values()):
        counts["Hopper" if verdict.target == "sm_90a" else "Blackwell"].update(
            ["kernels", *(what for what in RECORDED if getattr(verdict, what) == CURRENT)]
        )
    for name, count in counts.items():
        cells = [f"{count[what]:,}" for what in ("kernels", *RECORDED)]
        assert row(name) == f"| {name} | {' | '.join(cells)} |"


def test_stale_kernels_are_counted(verdicts: dict[str, list[Verdict]]) -> None:
    """By the README and by the index of results."""
    stale = sum(verdict.run == STALE for verdict in itertools.chain(*verdicts.values())) or "none"
    assert f"says how many there may be: today {stale}." in " ".join(README.split())
    index = (ROOT / "benchmarks/results/README.md").read_text(encoding="utf-8")
    assert f"all passed, and {stale} is of earlier sources" in index


@pytest.mark.parametrize("code", [code for mark, code in TOUR if mark == ""])
def test_command_of_the_tour(tour: dict[str, subprocess.CompletedProcess[str]], code: str) -> None:
    assert tour[code].returncode == 0, tour[code].stdout + tour[code].stderr


def test_the_plan_is_what_the_readme_says(tour: dict[str, subprocess.CompletedProcess[str]]) -> None:
    plan = next(done.stdout for code, done in tour.items() if "--dry-run" in code)
    assert "1 to add" in plan
    assert "1 unit to compile" in plan


def test_the_illegal_tile_is_explained_with_numbers(
    tour: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    explained = next(done.stdout for code, done in tour.items() if "256x256x64" in code)
    explained = " ".join(explained.split())  # which is broken into lines of 80 columns
    assert "accumulator_registers: tile 256x256" in explained
    assert "256 accumulators a thread" in explained


@pytest.mark.compile
def test_the_tour_builds(tour: dict[str, subprocess.CompletedProcess[str]], copy: Path) -> None:
    for mark, code in TOUR:
        if mark == "compile":
            done = run(code, copy)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "HGMMA" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_are_python(page: Path) -> None:
    for _, code in blocks(page.read_text(encoding="utf-8"), "python"):
        compile(code, page.name, "exec")


def test_the_spec_of_the_reference_is_one(copy: Path) -> None:
    (_, spec), *_ = blocks((ROOT / "docs" / "specs.md").read_text(encoding="utf-8"), "yaml")
    (copy / "reference.yaml").write_text(spec, encoding="utf-8")
    done = run("tilewright list reference.yaml", copy)
    assert done.returncode == 0, done.stderr
    assert "7 kernels" in done.stdout
