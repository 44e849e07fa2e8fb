"""The kernels of `gemm`, `reduced_gemm`, `grouped_gemm` and `blockscaled_gemm` that multiply by mma.sync, on
the host: every thread of every thread block, and their host code.

No GPU has run them. TMA, mbarriers, named barriers, ldmatrix, stmatrix and mma.sync are what the PTX ISA
says of them (`host_gpu.hpp`, `host_products.hpp`, `sm120/mma_definition.hpp`). Products of small whole
numbers are exact, so every element of D is compared to the bit, and so is what lies around D.
"""

from __future__ import annotations

import functools
import re
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
CLUSTER = "tilewright/sm90/cluster.hpp"
# What headers of Hopper's kernels name, which no kernel here calls.
WGMMA = """#pragma once
namespace tilewright::sm90 {
template <class A, class B, int N, bool kMnA = false, bool kMnB = false>
void wgmma(float (&)[N / 2], uint64_t, uint64_t, bool);
uint64_t swizzled_descriptor(uint32_t);
uint64_t swizzled_descriptor_mn(uint32_t);
uint64_t behind(uint64_t, int);
void wgmma_fence();
void wgmma_commit();
template <int Pending>
void wgmma_wait();
template <class Registers>
void hold(Registers&);
}  // namespace tilewright::sm90
"""
# In which subtile.hpp has the assembly of ldmatrix.
LOADS = ("// Loads four (or two) 8x8 matrices", "// Columns of accumulators in a subtile")

GEMM = (
    "bf16_tn", "bf16_tt", "bf16_nn", "bf16_nt", "bf16_nt_rows", "bf16_tt_256_columns", "bf16_rows_halved",
    "bf16_192_rows", "bf16_two_boxes", "bf16_swapped_8", "bf16_swapped_24", "bf16_swapped_128x8",
    "bf16_swapped_tt", "bf16_swapped_nn", "bf16_one_stage_of_k", "bf16_pingpong", "bf16_pingpong_short",
    "f16_tn", "e4m3_exact", "e4m3_exact_two_boxes", "e4m3_fast", "e5m2_e4m3_swapped", "e4m3_out",
    "e5m2_out_swapped", "odd_columns", "odd_columns_swapped", "last_columns", "c_in_boxes",
    "c_in_boxes_swapped", "c_of_f32", "c_and_bias", "relu", "splits", "splits_of_batch", "splits_swapped",
    "splits_pingpong", "parts", "parts_by_two_warps", "parts_by_four_warps", "parts_swapped",
    "parts_of_batch", "parts_scaled", "parts_and_c", "parts_odd", "parts_of_odd_columns", "broadcast_b",
)  # fmt: skip
REDUCED = ("reduced", "reduced_f32", "reduced_f16", "reduced_one_a")
GROUPED = (
    "scaled", "scaled_k_major", "scaled_two_boxes", "scaled_rows_halved", "scaled_swapped",
    "scaled_swapped_wide", "scaled_swapped_8", "scaled_c", "scaled_f32_c", "scaled_f32_in_place",
    "scaled_f32_swapped", "scaled_columns", "scaled_columns_swapped", "scaled_heads",
    "scaled_broadcast", "index", "index_across_tiles", "index_zeroes", "index_swapped", "ends",
    "ends_zeroes", "ends_swapped", "valid", "valid_swapped", "of_k", "of_k_in_place", "bf16_index",
    "bf16_ends_c", "bf16_valid_swapped", "bf16_tt", "bf16_tt_swapped", "bf16_of_k",
    "bf16_of_k_in_place", "packed_32", "packed_128", "packed_128_two_boxes", "packed_32_two_boxes",
    "packed_32_of_192_rows", "packed_128_swapped_8", "packed_32_swapped_24", "packed_128_index",
    "packed_32_ends_swapped", "packed_32_of_k", "narrow_32", "narrow_128", "narrow_128_short",
    "narrow_32_f32_c", "narrow_32_c", "narrow_128_swapped", "narrow_128_index", "narrow_32_ends",
    "narrow_32_valid_swapped", "packed_128_valid",
)  # fmt: skip
GROUPED_FP4 = (
    "fp4", "fp4_half_a_box", "fp4_two_boxes", "fp4_96_columns", "fp4_192_rows", "fp4_rows_halved",
    "fp4_f32_c", "fp4_f32_in_place", "fp4_c", "fp4_heads", "fp4_broadcast", "fp4_swapped_8",
    "fp4_swapped_half_a_box", "fp4_f32_swapped", "fp4_index", "fp4_index_zeroes", "fp4_ends_swapped",
    "fp4_valid", "fp4_valid_swapped", "fp8_fp4", "fp8_fp4_swapped", "fp8_fp4_swapped_8", "fp8_fp4_f32",
    "fp8_fp4_index", "fp8_fp4_ends", "fp8_fp4_valid_swapped", "fp4_fp8", "fp4_fp8_swapped", "fp4_fp8_valid",
)  # fmt: skip
BLOCKSCALED = (
    "nvfp4", "nvfp4_narrow", "nvfp4_256_rows", "nvfp4_256_columns", "nvfp4_rows_halved", "nvfp4_64_rows",
    "nvfp4_64_columns", "nvfp4_two_boxes", "nvfp4_f32", "nvfp4_f16", "nvfp4_c", "nvfp4_swapped",
    "nvfp4_swapped_8", "nvfp4_swapped_16", "nvfp4_swapped_32", "nvfp4_swapped_c", "nvfp4_short",
    "nvfp4_odd_columns", "nvfp4_splits", "nvfp4_splits_swapped", "nvfp4_broadcast", "mxfp4", "mxfp4_narrow",
    "mxfp4_swapped_8", "mxfp8", "mxfp8_e5m2", "mxfp8_swapped_8", "mxfp8_two_boxes", "mxfp8_splits_of_batch",
    "mixed_b", "mixed_a", "mixed_a_swapped", "mixed_b_swapped_16", "bias", "bias_odd_columns", "bias_f32",
    "bias_swapped_8", "bias_splits", "e4m3_out", "e5m2_out_swapped", "relu", "gelu_swapped", "silu_splits",
    "no_activation", "refused", "mixed_two_boxes",
)  # fmt: skip
PROGRAMS = {
    "sm120_gemm": GEMM,
    "sm120_reduced": REDUCED,
    "sm120_grouped": GROUPED,
    "sm120_grouped_fp4": GROUPED_FP4,
    "sm120_blockscaled": BLOCKSCALED,
}
CASES = [(name, case) for name, cases in PROGRAMS.items() for case in cases]


@functools.cache
def program(name: str) -> Path:
    return compiled(
        name,
        [HERE / f"{name}.cc"],
        ["-std=c++20", "-O2", f"-I{HERE}", f"-I{INCLUDE}"],
        files=empty_headers(REPLACED)
        | {SUBTILE: without_loads((INCLUDE / SUBTILE).read_text())}
        | {"tilewright/sm90/wgmma.hpp": WGMMA}
        | {CLUSTER: of_lone_blocks((INCLUDE / CLUSTER).read_text())},
    )


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_kernel_computes_the_product(name: str, case: str, when: str) -> None:
    """Copies come when they are asked for, or late and in any order. Stores read shared memory as late as
    they may."""
    done = run(program(name), case, when)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "cases"), PROGRAMS.items())
def test_every_case_is_run(name: str, cases: tuple[str, ...]) -> None:
    assert run(program(name)).stdout.split() == list(cases)


def without_loads(text: str) -> str:
    """subtile.hpp without its functions that load matrices."""
    before, _, after = text.partition(LOADS[0])
    loads, mark, rest = after.partition(LOADS[1])
    assert loads.count("ldmatrix") == 4
    assert "ldmatrix" not in before + rest
    return before + mark + rest


def of_lone_blocks(text: str) -> str:
    """cluster.hpp, whose clusters have one thread block each."""
    for register, value in (("clusterid", "blockIdx.x"), ("nclusterid", "gridDim.x")):
        assembly = re.compile(rf'asm volatile\("mov.u32 %0, %%{register}.x;" : "=r"\((\w+)\)\);')
        text, count = assembly.subn(rf"\1 = {value};", text)
        assert count == 1
    return text
