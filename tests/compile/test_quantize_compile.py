"""The exact mathematics of quantising, on the host; and real nvcc on a kernel of each architecture.

What is compiled here takes seconds: no CUTLASS is in it. All 2^32 floats are asked by hand:
`g++ ... tests/compile/quantize_numbers.cc && ./a.out 1` (three minutes).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiled_kernels import GENERATED, built, check_row, rows_of
from host_programs import compiled, run

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.compile.store import Store
from tilewright.declarations.table import Table

TABLE = Table.read(GENERATED / "quantize" / "table.json")
SOURCE = Path(__file__).with_name("quantize_numbers.cc")
# Each conversion, kind of copies and scales once, NVFP4's conversion on every architecture; the records of
# benchmarks/results/compile have all kernels.
KERNELS = (
    "quantize_sm90_nvfp4_bf16_vector",
    "quantize_sm90_nvfp4_e4m3_tma_2stages",
    "quantize_sm90_fp8_128x128_f32_vector",
    "dequantize_sm90_mxfp8_f32",
    "quantize_sm100f_nvfp4_e4m3_vector",
    "quantize_sm100f_nvfp4_e4m3_tma_2stages",
    "quantize_sm100f_mxfp8_bf16_rmsnorm_vector",
    "dequantize_sm100f_nvfp4_bf16",
    "quantize_sm120f_nvfp4_bf16_vector",
    "quantize_sm120f_mxfp8_e5m2_f16_vector",
)
STRIDE = 9973  # a prime: every exponent, and all low bits in turn

pytestmark = pytest.mark.compile


def test_the_mathematics_is_exact() -> None:
    """Quotients, scales and codes against IEEE division and the boundaries, without a GPU."""
    toolchain = find_toolchain()
    options = ["-std=c++17", "-O2", "-ffp-contract=off", f"-I{paths.include_dir()}"]
    program = compiled(
        "quantize_numbers",
        [SOURCE],
        [*options, f"-isystem{toolchain.include}"],
        compiler=toolchain.host,
    )
    result = run(program, STRIDE)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.returncode == 0, result.stdout
    assert len(lines) == 14
    assert all(int(asked) > 1000 and wrong == "0" for _, asked, wrong in lines), result.stdout


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    return rows_of(built(TABLE, KERNELS))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_what_its_row_says(reports: dict[str, dict[str, Any]], name: str) -> None:
    """Its conversion, its copies, no spills; what is not found is a finding of the build."""
    row, record = reports[name], TABLE[name]
    check_row(row, record)
    converts = any("E2M1" in opcode for opcode in row["data_instructions"])
    assert converts == (name.startswith("quantize") and "nvfp4" in name and record.arch != "sm_90a")
    assert any(opcode.startswith("UBLKCP") for opcode in row["data_instructions"]) == ("_tma_" in name)


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_read_or_written_ahead_of_the_wait(reports: dict[str, dict[str, Any]], name: str) -> None:
    """Global memory, in the machine code: what the kernel before writes is there after ACQBULK alone."""
    entry = Store().entry(reports[name]["key"])
    assert entry is not None
    command = [str(find_toolchain().cuobjdump), "-sass", str(entry.object)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ahead, wait, after = listing.partition("ACQBULK")
    assert wait
    accesses = re.compile(r"\b(LDG|LD\.E|STG|ST\.E|UBLKCP|CCTL)")
    assert accesses.search(ahead) is None
    assert accesses.search(after)
