"""Loads of 32 bytes, wherever a row begins: nvcc's PTX runs here, instruction by instruction (ptx_machine.py)
on a machine that refuses addresses which are not aligned."""

from __future__ import annotations

import re
import struct
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compiled_kernels import GENERATED
from ptx_machine import Launch
from ptx_memory import Memory
from ptx_program import Program

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.declarations.table import Table

pytestmark = pytest.mark.compile

SOURCE = Path(__file__).with_name("wide_loads.cu")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("wide_loads") / "copy.ptx"
    command = [
        str(find_toolchain().nvcc), "-std=c++17", "-arch=compute_100f", "-ptx", f"-I{paths.include_dir()}",
        str(SOURCE), "-o", str(output),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    text = output.read_text()
    # The machine knows a kernel's threads from .reqntid, as CuTe-DSL writes them.
    return re.sub(r"\.maxntid (\d+)(?:, 1, 1)?", r".reqntid \1", text)


def copied(program: str, offset: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """What 32 threads load, of which the last do not count, and the bytes of x that they begin at."""
    memory, out = Memory(), np.full(32 * 32, 0x55, "u1")
    x = np.random.default_rng(offset).integers(0, 256, 2048).astype("u1")
    parameters = [struct.pack("q", memory.add(array)) for array in (x, out)]
    parameters += [struct.pack("q", offset), struct.pack("i", count)]
    Launch(Program(program), 1, 1, 0, memory, parameters, late=False).run()
    return out, x[offset : offset + 32 * 32]


@pytest.mark.parametrize("offset", [0, 16, 32, 48])
def test_every_thread_gets_its_bytes(ptx: str, offset: int) -> None:
    out, expected = copied(ptx, offset, 20)
    assert (out[: 20 * 32] == expected[: 20 * 32]).all()
    assert not out[20 * 32 :].any()


def test_an_address_that_is_not_tested_is_misaligned(ptx: str) -> None:
    untested, count = re.subn(r"(and\.b64\s+[^,]+, [^,]+, )31;", r"\g<1>0;", ptx)
    assert count == 1
    with pytest.raises(AssertionError, match="misaligned"):
        copied(untested, 16, 32)


def test_kernels_of_every_target_that_has_the_load_use_it() -> None:
    """Where a thread takes 32 bytes of a row from global memory."""
    table = Table.read(GENERATED / "quantize" / "table.json")
    wide = [table[name] for name in table if any("256" in code for code in table[name].instructions)]
    assert Counter(record.arch for record in wide) == {"sm_100f": 29, "sm_110f": 29, "sm_120f": 29}
    assert {record.config["x"] for record in wide} == {"bf16", "f16", "f32"}
