"""Kernels that add up sizes of groups, on the host: of more than there is, or than an int holds.

Every thread runs (`host_gpu.hpp`), and every result is compared with what sums of 64 bits yield.
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


@pytest.mark.parametrize("name", ["scale_columns", "transpose_fp8"])
def test_groups_of_any_sizes(name: str, tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    for header in REPLACED:
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).write_text("#pragma once\n")
    program = tmp_path / name
    # Sums that no int holds wrap, as they do on a GPU.
    command = [compiler, "-std=c++17", "-O1", "-fwrapv", f"-I{tmp_path}", f"-I{HERE}", f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / f"{name}.cc"), "-o", str(program)], check=True)
    found = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
