"""The kernel of `scale_columns` on the host: what it makes of groups that add up to more than there is.

Every thread runs (`host_gpu.hpp`), and each word is compared with what sums of 64 bits yield.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"
# What host_gpu.hpp stands for.
REPLACED = ("cuda_runtime_api.h", "tilewright/adapter.hpp", "tilewright/sm90/ptx.hpp")


def test_groups_of_any_sizes(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    for name in REPLACED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("#pragma once\n")
    program = tmp_path / "scale_columns"
    # Sums that no int holds wrap, as they do on a GPU.
    command = [compiler, "-std=c++17", "-O1", "-fwrapv", f"-I{tmp_path}", f"-I{HERE}", f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / "scale_columns.cc"), "-o", str(program)], check=True)
    found = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
