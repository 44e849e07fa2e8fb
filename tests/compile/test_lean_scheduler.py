"""The order of tiles of the lean kernels, and the divisions by multiplication that it takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"


def test_every_block_is_visited_once(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "lean_scheduler"
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        f"-I{INCLUDE}",
        str(HERE / "lean_scheduler.cc"),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    found = subprocess.run([str(program)], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
