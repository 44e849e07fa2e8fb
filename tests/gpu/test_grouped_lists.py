"""The first kernel of grouped products on tcgen05, on a Hopper GPU.

`grouped_lists.cu`, `parts_lists.cu` and `blockscaled_lists.cu` compile generated units of sm_100f for sm_90a,
and read what the first kernel wrote as CUTLASS does: extents, addresses, strides, scale factors and their
layouts. The product is a plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.families.grouped_gemm.problem import PACKED_SCALES
from tilewright.libraries.registry import Registry

HERE = Path(__file__).parent
MODULE = "sm100_grouped_gemm"
BLOCKSCALED_MODULE = "sm100_blockscaled_grouped_gemm"
TABLES = Registry(libraries=lambda module: []).tables
# One kernel of each way in which factors and operands lie.
KERNELS = (
    "e4m3_e4m3_bf16_1x32_ue8m0_128x128x128_2sm",
    "e4m3_e4m3_bf16_1x128_ue8m0_128x64x128_1sm_swap",
    "mxfp4_mxfp4_bf16_1x32_ue8m0_128x64x256_1sm_swap",
    "e4m3_mxfp4_bf16_1x32_ue8m0_128x128x128_2sm",
    "e4m3_e4m3_f32_1x128_128x128_128x128x128_2sm",
    "e4m3_e4m3_bf16_1x128_128x128_128x64x128_1sm_swap",
    "e4m3_e4m3_bf16_1x128_1x128_128x64x128_1sm_swap",
    "bf16_bf16_f32_128x128x64_2sm",
    "bf16_bf16_bf16_128x32x64_1sm_swap",
)
# The same of block-scaled products of groups.
BLOCKSCALED_KERNELS = (
    "nvfp4_nvfp4_bf16_128x64x256_1sm_swap",
    "nvfp4_nvfp4_f32_128x128x256_2sm",
    "mxfp4_mxfp4_f16_128x128x256_2sm",
    "mxfp8_mxfp4_bf16_128x128x128_2sm",
    "mxfp8_mxfp8_bf16_128x64x128_1sm_swap",
)


# The same of groups along k.
PARTS_KERNEL = "e4m3_e4m3_f32_1x32_ue8m0_128x128x128_2sm"


def program(kernel: str) -> Path:
    """The program of a kernel of `grouped_gemm`."""
    name = f"grouped_gemm_sm100f_{kernel}"
    record = TABLES[MODULE][name]
    scales = record.config["scales"]
    floats = scales in ("128x128", "1x128")
    factors = "FloatFactors" if floats else "PackedFactors" if scales in PACKED_SCALES else "NoFactors"
    words = {
        "FACTORS": factors,
        "FLOATS": int(floats),
        "BLOCK": PACKED_SCALES.get(scales, 128),
        "ROWS_B": 128 if scales == "128x128" else 1,
    }
    return compiled_for_hopper(f"lists_{kernel}", "grouped_lists.cu", MODULE, name, words)


def blockscaled_program(kernel: str) -> Path:
    """The program of a kernel of `blockscaled_grouped_gemm`."""
    name = f"blockscaled_grouped_gemm_sm100f_{kernel}"
    return compiled_for_hopper(f"lists_{kernel}", "blockscaled_lists.cu", BLOCKSCALED_MODULE, name, {})


def parts_program() -> Path:
    """The program of a kernel of `grouped_gemm` whose groups divide k."""
    name = f"grouped_gemm_sm100f_{PARTS_KERNEL}"
    return compiled_for_hopper(f"lists_{PARTS_KERNEL}", "parts_lists.cu", MODULE, name, {})


def compiled_for_hopper(
    program: str, source: str, module: str, kernel: str, words: Mapping[str, object]
) -> Path:
    """A program that nvcc makes of a file beside this one, which includes a kernel's unit, with macros."""
    toolchain = find_toolchain()
    assert toolchain.cutlass is not None
    unit = ROOT / "generated" / module / TABLES[module][kernel].source
    macros = {"KERNEL": kernel, "SOURCE": f'"{unit}"', **words}
    options = [
        "-std=c++17", "-O1", "-DNDEBUG", "-arch=sm_90a", "--expt-relaxed-constexpr", "-w",
        f"-I{ROOT / 'runtime/include'}", f"-I{toolchain.cutlass}",
        *(f"-D{word}={value}" for word, value in macros.items()),
    ]  # fmt: skip
    return compiled(program, [HERE / source], options, link=["-lcuda"], compiler=[str(toolchain.nvcc)])


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_cutlass_is_given(kernel: str) -> None:
    done = run(program(kernel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 wrong") == 7


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("kernel", BLOCKSCALED_KERNELS)
def test_what_cutlass_is_given_of_block_scaled_groups(kernel: str) -> None:
    done = run(blockscaled_program(kernel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 wrong") == 9


@pytest.mark.timeout(900)  # for the compiler
def test_what_cutlass_is_given_of_groups_along_k() -> None:
    done = run(parts_program())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 wrong") == 6
