"""How kernels of `mqa_logits` share queries and keys out among thread blocks, and the schedule of pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"
# What the headers take of PTX, which no host assembles.
PTX = "namespace tilewright::sm90 { void wait_for_previous_kernel(); void allow_next_kernel(); }\n"


def test_every_query_meets_each_of_its_keys_once(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    stand_in = tmp_path / "tilewright/sm90/ptx.hpp"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(f"#pragma once\n{PTX}")
    program = tmp_path / "mqa_work"
    command = [compiler, "-std=c++17", "-O1", f"-I{tmp_path}", f"-I{INCLUDE}", str(HERE / "mqa_work.cc")]
    subprocess.run([*command, "-o", str(program)], check=True)
    found = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
