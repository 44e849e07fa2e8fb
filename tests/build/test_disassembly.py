"""The digest of machine code: of a kernel's bytes and resources, not of how its source is put."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tilewright.compile.commands import OBJECT
from tilewright.compile.nvcc.disassembly import disassemble
from tilewright.compile.nvcc.toolchain import NvccToolchain

SOURCE = """
__constant__ float table[2] = {1.0f, 2.0f};
extern "C" __global__ void __launch_bounds__(128) one(float* x, int count) {
  __shared__ float shared[32];
  shared[threadIdx.x % 32] = x[threadIdx.x];
  __syncthreads();
  if (int(threadIdx.x) < count) x[threadIdx.x] = shared[0] * 3.0f + table[count & 1];
}
"""


def digest(toolchain: NvccToolchain, folder: Path, source: str) -> str:
    folder.mkdir()
    (folder / "one.cu").write_text(source)
    flags = [f"-ccbin={toolchain.host[0]}", "-arch=sm_90a", "--objdir-as-tempdir", "-c", "-o", OBJECT]
    subprocess.run([str(toolchain.nvcc), *flags, "one.cu"], cwd=folder, check=True)
    (code,) = disassemble(str(toolchain.cuobjdump), [folder / OBJECT])
    assert code.functions["one"].code_bytes > 0
    return code.digest


@pytest.fixture(scope="module")
def plain(toolchain: NvccToolchain, tmp_path_factory: pytest.TempPathFactory) -> str:
    return digest(toolchain, tmp_path_factory.mktemp("digest") / "plain", SOURCE)


def test_other_words_and_another_place_are_the_same_code(
    toolchain: NvccToolchain, plain: str, tmp_path: Path
) -> None:
    put_otherwise = SOURCE.replace("float* x", "float* y").replace("x[", "y[").replace("; ", ";\n")
    assert digest(toolchain, tmp_path / "elsewhere", f"// a comment\n{put_otherwise}") == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 3.0f", "* 5.0f"),  # an instruction's operand
        ("2.0f}", "4.0f}"),  # a constant in memory
        ("int count)", "int count, int)"),  # parameters
        ("shared[32]", "shared[64]"),  # shared memory
        ("__launch_bounds__(128)", "__launch_bounds__(96)"),  # what the driver is told
    ],
)
def test_another_kernel_has_another_digest(
    toolchain: NvccToolchain, plain: str, tmp_path: Path, old: str, new: str
) -> None:
    assert SOURCE.count(old) == 1
    assert digest(toolchain, tmp_path / "other", SOURCE.replace(old, new)) != plain
