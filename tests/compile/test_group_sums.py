"""Kernels that add up sizes of groups, on the host: of more than there is, or than an int holds; and how
`scale_columns` brings scales into its layouts.

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


@pytest.mark.parametrize("name", ["scale_columns", "transpose_fp8"])
def test_groups_of_any_sizes(name: str) -> None:
    cases = [("groups", "rows"), ("groups", "columns")] if name == "scale_columns" else [()]
    for words in cases:
        done = run(program(name), *words)
        assert (done.returncode, done.stdout) == (0, ""), words


@pytest.mark.parametrize("contiguous", ["rows", "columns"])
def test_scales_without_groups(contiguous: str) -> None:
    """One matrix and several, whose columns are no multiple of a word's four; floats and words."""
    done = run(program("scale_columns"), "matrices", contiguous)
    assert (done.returncode, done.stdout) == (0, "")


def test_scales_in_the_layout_of_block_scaled_products() -> None:
    """Every byte, for floats and words, for 32 and 128 of k, for rows and squares, of matrices with gaps."""
    done = run(program("scale_atoms"))
    assert (done.returncode, done.stdout) == (0, "")
