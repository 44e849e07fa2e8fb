"""Calling `tilewright`, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


def run_in_a_process(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> Result:
    """`tilewright` as a user runs it, with changes to the environment."""
    done = subprocess.run(
        [sys.executable, "-c", "from tilewright_generator.cli import main; main()", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/generator:{ROOT}/runtime", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def untracked(folder: Path) -> set[str]:
    """The files of a folder that a new repository of git there would take."""
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    listed = [*git, "ls-files", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return set(filter(None, names.split("\0")))
