"""How FP4 of `mqa_logits` lies in registers and shared memory, against PTX's own layouts, on the host.

The block-scaled instruction is sm_12x's, and no such GPU has run these kernels: what it gets is checked here.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"
# Headers that hold little but PTX, which no host assembles: mqa_fp4.cc says what is wanted of them.
PTX = ("elements.hpp", "ptx.hpp", "wgmma.hpp", "wgmma_registers.hpp")
MULTIPLY = 'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));'


def test_fragments_are_those_of_the_product(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path / "tilewright/sm90"
    folder.mkdir(parents=True)
    for name in PTX:
        (folder / name).write_text("#pragma once\n")
    text = (INCLUDE / "tilewright/sm90/e2m1.hpp").read_text()
    assert text.count(MULTIPLY) == 1
    (folder / "e2m1.hpp").write_text(text.replace(MULTIPLY, "product = host::multiply(x, y);"))
    program = tmp_path / "mqa_fp4"
    command = [compiler, "-std=c++17", "-O1", f"-I{tmp_path}", f"-I{INCLUDE}", str(HERE / "mqa_fp4.cc")]
    subprocess.run([*command, "-o", str(program)], check=True)
    found = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
