"""One line more in a spec, generated: whatever reads committed files is as green as before."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import readme_line
from command_line import ROOT, run_in_a_process
from readme_line import KERNEL, LINE, SPEC

_COPIED = ("benchmarks", "docs", "generated", "generator", "runtime", "specs", "templates", "tests", "tuned")
# Tests that read committed files of all kernels; what else reads them runs in this suite.
READERS = ("tests/docs/test_figures.py", "tests/docs/test_specs.py", "tests/runtime/selection/test_trees.py")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository whose spec has the README's line, generated."""
    folder = tmp_path_factory.mktemp("line") / "repository"
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    readme_line.remove(folder, lambda: run_in_a_process("generate", cwd=folder))
    readme_line.add(folder)
    assert run_in_a_process("generate", cwd=folder).code == 0
    assert KERNEL in table(folder)
    return folder


def table(folder: Path) -> str:
    return (folder / "generated/sm90_gemm_lean/table.json").read_text(encoding="utf-8")


def test_the_line_is_the_readmes() -> None:
    assert f"echo '{LINE.rstrip()}' >> {SPEC}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_command_finds_fault(project: Path) -> None:
    """But for what it finds without the line, too: rows that other changes have made stale."""
    done = run_in_a_process("check", cwd=project)
    assert done.code == 0, done.out
    answers = [run_in_a_process("status", "--check", "--json", cwd=folder) for folder in (project, ROOT)]
    faults = [json.loads(answer.out)["faults"] for answer in answers]
    assert faults[0] == faults[1]
    assert answers[0].code == answers[1].code == bool(faults[0])


def test_the_kernel_is_listed_and_counted_as_never_compiled(project: Path) -> None:
    (row,) = json.loads(run_in_a_process("list", "--filter", KERNEL, "--json", cwd=project).out)
    assert (row["compiled"], row["run"]) == ("never", "never")

    def never(folder: Path) -> int:
        done = run_in_a_process("status", "--root", folder)
        (count,) = re.findall(r"^compiled, never: ([\d,]+) kernel", done.out, re.MULTILINE) or ["0"]
        return int(count.replace(",", ""))

    assert never(project) == never(ROOT) + (KERNEL not in table(ROOT))


def test_tests_that_read_committed_files_pass(project: Path) -> None:
    path = f"{project}/generator:{project}/runtime"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *READERS],
        cwd=project, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
