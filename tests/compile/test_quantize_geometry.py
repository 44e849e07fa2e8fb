"""Which elements thread blocks of quantising kernels take, and where their scales go."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain

pytestmark = pytest.mark.compile

SOURCE = Path(__file__).with_name("quantize_geometry.cc")


def test_every_element_is_taken_once_and_every_scale_stored_in_its_place(tmp_path: Path) -> None:
    """For each layout, ragged extents, groups, and grids of fewer thread blocks than tasks; and what the
    kernels refuse."""
    toolchain, program = find_toolchain(), tmp_path / "geometry"
    command = [
        *toolchain.host, "-std=c++17", "-O2", f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
        str(SOURCE), "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
