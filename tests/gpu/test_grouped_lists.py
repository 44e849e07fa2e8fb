"""The first kernel of grouped products on tcgen05, on a Hopper GPU.

`grouped_lists.cu` compiles generated units of sm_100f for sm_90a, and reads what the first kernel wrote as
CUTLASS does: extents, addresses, strides, scale factors and their layouts. The product is a plain one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.families.grouped_gemm.problem import PACKED_SCALES
from tilewright.libraries.registry import Registry

HERE = Path(__file__).parent
MODULE = "sm100_grouped_gemm"
TABLE = Registry(libraries=lambda module: []).tables[MODULE]
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


def program(kernel: str) -> Path:
    """The program of a kernel, which nvcc compiles."""
    name = f"grouped_gemm_sm100f_{kernel}"
    record, toolchain = TABLE[name], find_toolchain()
    scales = record.config["scales"]
    floats = scales in ("128x128", "1x128")
    factors = "FloatFactors" if floats else "PackedFactors" if scales in PACKED_SCALES else "NoFactors"
    words = {
        "KERNEL": name,
        "SOURCE": f'"{ROOT / "generated" / MODULE / record.source}"',
        "FACTORS": factors,
        "FLOATS": int(floats),
        "BLOCK": PACKED_SCALES.get(scales, 128),
        "ROWS_B": 128 if scales == "128x128" else 1,
    }
    assert toolchain.cutlass is not None
    options = [
        "-std=c++17", "-O1", "-DNDEBUG", "-arch=sm_90a", "--expt-relaxed-constexpr", "-w",
        f"-I{ROOT / 'runtime/include'}", f"-I{toolchain.cutlass}",
        *(f"-D{word}={value}" for word, value in words.items()),
    ]  # fmt: skip
    return compiled(
        f"lists_{kernel}",
        [HERE / "grouped_lists.cu"],
        options,
        link=["-lcuda"],
        compiler=[str(toolchain.nvcc)],
    )


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_cutlass_is_given(kernel: str) -> None:
    done = run(program(kernel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 wrong") == 7
