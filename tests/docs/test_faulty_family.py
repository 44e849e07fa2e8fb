"""A family from outside that is wrong: what commands say names its file, and what mends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from test_adding_a_family import FAMILY, FILES, ROOT

from tilewright.compile.toolchain import find_toolchain
from tilewright.errors import ToolchainError


class Said(NamedTuple):
    code: int
    err: str


class Project:
    """The page's files, which a test spoils."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.family = root / FAMILY
        for name, text in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> int:
        """Changes a file of the family; the number of the changed line."""
        path = self.family / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        return text[: text.index(old)].count("\n") + 1

    def tilewright(self, *words: str) -> Said:
        places = [self.root, ROOT / "generator", ROOT / "runtime"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "TILEWRIGHT_CACHE": str(self.root / "cache"),
            "TILEWRIGHT_TUNED": "",
        }
        environment.pop("TILEWRIGHT_DEBUG", None)
        done = subprocess.run(
            [sys.executable, "-m", "tilewright_generator", *words], cwd=self.root, env=environment,
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        return Said(done.returncode, done.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


SHOWS = "TILEWRIGHT_DEBUG=1 shows the traceback"


def test_a_family_without_a_summary(project: Project) -> None:
    project.change("kernel.py", "def summary(", "def summery(")
    found = project.tilewright("generate")
    made = f"{project.family}/kernel.py makes it so; {SHOWS}"
    assert found == (2, f"Error: the family 'row_scale' has no function summary\n{made}\n")


def test_a_syntax_error(project: Project) -> None:
    line = project.change("problem.py", "    m: int\n", "    m int\n")
    found = project.tilewright("explain", "--problem", "row_scale", "bf16", "m=64", "n=256")
    assert found.code == 2
    assert found.err.startswith(f"tilewright: {project.family}/problem.py:{line}: SyntaxError: ")
    assert found.err.endswith(f"\n{SHOWS}\n")


def test_an_error_of_a_function_that_generates(project: Project) -> None:
    line = project.change("kernel.py", '"n_multiple": N_MULTIPLE}', '"n_multiple": N_MULTIPLE / 0}')
    found = project.tilewright("check")
    place = f"{project.family}/kernel.py:{line}"
    assert found == (2, f"tilewright: {place}: ZeroDivisionError: division by zero\n{SHOWS}\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'return named("row_scale", config.arch,',
            'return named("row-scale", config.arch,',
            "row_scale makes the name 'row-scale_sm90_bf16_128threads': not a C identifier",
        ),
        (
            "if config.threads < 64",
            "if config.threats < 64",
            "'RowScaleConfig' object has no attribute 'threats'",
        ),
    ],
)
def test_a_name_and_a_rule_that_are_wrong(project: Project, old: str, new: str, said: str) -> None:
    project.change("kernel.py", old, new)
    found = project.tilewright("check")
    assert found.code == 2
    assert said in found.err
    last = f"{project.family}/kernel.py makes it so; {SHOWS}"
    assert found.err.splitlines()[-1] == last


def test_an_extent_that_its_problem_has_not(project: Project) -> None:
    project.change(
        "interface.py",
        'Matrix("out", "[m, n]", rows="m", columns="n",',
        'Matrix("out", "[m, n]", rows="m", columns="q",',
    )
    command = [sys.executable, "-m", "tilewright.declarations.headers"]
    environment = os.environ | {"PYTHONPATH": f"{project.root}:{ROOT}/runtime"}
    headers = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = "ValueError: out: columns is 'q', which is no extent of the problem; there are: m, n"
    assert (headers.returncode, headers.stderr.splitlines()[-1]) == (1, said)
    assert not (project.family / "include/tilewright/row_scale/args.h").exists()


@pytest.mark.parametrize("command", ["generate", "check"])
def test_facts_that_the_row_does_not_declare(project: Project, command: str) -> None:
    """Found where they are made: no build asks to generate again what would be generated the same."""
    line = project.change("kernel.py", '"n_multiple": N_MULTIPLE}', '"multiple": N_MULTIPLE}')
    found = project.tilewright(command)
    assert found.code == 2
    first, last = found.err.splitlines()
    assert first.startswith(f"Error: {project.family}/kernel.py:{line - 1}: row_scale_sm90_bf16")
    assert "facts: there is no 'n_multiple'" in first
    assert last == f"{project.family}/kernel.py declares what facts hold (FACTS): make the two agree"
    assert not (project.root / "generated" / "row_scale").exists()


def test_a_row_that_has_changed_since_the_table_was_made(project: Project) -> None:
    """`build` reads the table alone, and sends to the command that tells which of both is at fault."""
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    assert project.tilewright("generate").code == 0
    project.change("kernel.py", "    n_multiple: Annotated", "    n_divisor: Annotated")
    built = project.tilewright("build")
    assert built.code == 2
    assert "facts: there is no 'n_divisor'" in built.err
    assert "`tilewright check` says whether the table or the family that made it is at fault." in built.err
    checked = project.tilewright("check")
    assert f"{project.family}/kernel.py declares what facts hold" in checked.err


def test_a_header_that_nobody_has_written(project: Project) -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    assert project.tilewright("generate").code == 0
    found = project.tilewright("build", "--dry-run")
    header = project.family / "include/tilewright/row_scale/args.h"
    assert found.code == 1
    assert f"tilewright: {header}: No such file or directory\n" in found.err
    assert (
        "`python -m tilewright.declarations.headers` writes it from the declaration of row_scale."
        in found.err
    )
