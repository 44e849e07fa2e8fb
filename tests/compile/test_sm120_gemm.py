"""The kernels of `gemm` and `reduced_gemm` that multiply by mma.sync, on the host: every thread of every
thread block, and their host code.

No GPU has run them. TMA, mbarriers, named barriers, ldmatrix, stmatrix and mma.sync are what the PTX ISA
says of them (`host_gpu.hpp`, `host_products.hpp`, `sm120/mma_definition.hpp`). Products of small whole
numbers are exact, so every element of D is compared to the bit, and so is what lies around D.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from host_programs import ROOT, compiled, empty_headers, run

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
# What host_products.hpp stands for.
REPLACED = (
    "cuda.h",
    "cuda_runtime_api.h",
    "tilewright/launch.hpp",
    "tilewright/sm90/elements.hpp",
    "tilewright/sm90/ptx.hpp",
    "tilewright/sm120/mma.hpp",
)
SUBTILE = "tilewright/sm90/subtile.hpp"
# In which subtile.hpp has the assembly of ldmatrix.
LOADS = ("// Loads four (or two) 8x8 matrices", "// Columns of accumulators in a subtile")

GEMM = (
    "bf16_tn", "bf16_tt", "bf16_nn", "bf16_nt", "bf16_nt_rows", "bf16_tt_256_columns", "bf16_rows_halved",
    "bf16_192_rows", "bf16_two_boxes", "bf16_swapped_8", "bf16_swapped_24", "bf16_swapped_128x8",
    "bf16_swapped_tt", "bf16_swapped_nn", "bf16_one_stage_of_k", "bf16_pingpong", "bf16_pingpong_short",
    "f16_tn", "e4m3_exact", "e4m3_exact_two_boxes", "e4m3_fast", "e5m2_e4m3_swapped", "e4m3_out",
    "e5m2_out_swapped", "odd_columns", "odd_columns_swapped", "last_columns", "c_in_boxes",
    "c_in_boxes_swapped", "c_of_f32", "c_and_bias", "relu", "splits", "splits_of_batch", "splits_swapped",
    "splits_pingpong", "broadcast_b",
)  # fmt: skip
REDUCED = ("reduced", "reduced_f32", "reduced_f16", "reduced_one_a")
CASES = [("sm120_gemm", case) for case in GEMM] + [("sm120_reduced", case) for case in REDUCED]


@functools.cache
def program(name: str) -> Path:
    return compiled(
        name,
        [HERE / f"{name}.cc"],
        ["-std=c++20", "-O2", f"-I{HERE}", f"-I{INCLUDE}"],
        files=empty_headers(REPLACED) | {SUBTILE: without_loads((INCLUDE / SUBTILE).read_text())},
    )


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_kernel_computes_the_product(name: str, case: str, when: str) -> None:
    """Copies come when they are asked for, or late and in any order. Stores read shared memory as late as
    they may."""
    done = run(program(name), case, when)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "cases"), [("sm120_gemm", GEMM), ("sm120_reduced", REDUCED)])
def test_every_case_is_run(name: str, cases: tuple[str, ...]) -> None:
    assert run(program(name)).stdout.split() == list(cases)


def without_loads(text: str) -> str:
    """subtile.hpp without its functions that load matrices."""
    before, _, after = text.partition(LOADS[0])
    loads, mark, rest = after.partition(LOADS[1])
    assert loads.count("ldmatrix") == 4
    assert "ldmatrix" not in before + rest
    return before + mark + rest
