"""Kernels that add up sizes of groups, on the host: of more than there is, or than an int holds.

Every thread runs (`host_gpu.hpp`), and every result is compared with what sums of 64 bits yield.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, empty_headers, run

HERE = Path(__file__).parent
# What host_gpu.hpp stands for.
REPLACED = ("cuda_runtime_api.h", "tilewright/adapter.hpp", "tilewright/sm90/ptx.hpp")


def program(name: str) -> Path:
    # Sums that no int holds wrap, as they do on a GPU.
    options = ["-std=c++17", "-O1", "-fwrapv", f"-I{HERE}", f"-I{ROOT / 'runtime/include'}"]
    return compiled(name, [HERE / f"{name}.cc"], options, files=empty_headers(REPLACED))


@pytest.mark.parametrize("contiguous", ["rows", "columns"])
@pytest.mark.parametrize("case", ["groups", "matrices"])
def test_lines_of_scales(case: str, contiguous: str) -> None:
    """Groups of any sizes; whole matrices, whose columns are no multiple of a word's."""
    done = run(program("scale_columns"), case, contiguous)
    assert (done.returncode, done.stdout) == (0, "")


def test_transposed_groups_of_any_sizes() -> None:
    done = run(program("transpose_fp8"))
    assert (done.returncode, done.stdout) == (0, "")
