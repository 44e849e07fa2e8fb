"""The `blockscaled_gemm` kernels of mma.sync for sm_12x on a Hopper GPU, with the instruction in software.

`blockscaled_mma.cu` compiles the kernels' source for sm_90a. TMA, mbarriers, ldmatrix, the epilogue and the
kernel that adds up a split k are the GPU's own; D is compared to the bit, and so is what lies around it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError

HERE = Path(__file__).parent
PARTS = range(5)  # of the program's products


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The program's parts, compiled side by side."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    folder = tmp_path_factory.mktemp("blockscaled_mma")
    folders = [HERE.parents[1] / "runtime/include", *toolchain.runtime_includes]
    command = [
        str(toolchain.nvcc), "-std=c++17", "-diag-suppress=2912", "-O2", "-DNDEBUG",
        "--expt-relaxed-constexpr", "-gencode=arch=compute_90a,code=sm_90a",
        *(f"-I{path}" for path in folders), str(HERE / "blockscaled_mma.cu"), f"-L{toolchain.lib}",
    ]  # fmt: skip
    paths = [folder / f"part{part}" for part in PARTS]
    running = [
        subprocess.Popen([*command, f"-DPART={part}", "-o", str(path)])
        for part, path in zip(PARTS, paths, strict=True)
    ]
    assert [process.wait() for process in running] == [0] * len(running)
    return paths


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("part", PARTS)
def test_every_bit_of_d(programs: list[Path], part: int) -> None:
    done = subprocess.run([programs[part]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["0 products are wrong"]), done.stdout
