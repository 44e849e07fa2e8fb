"""How many SMs a GPU has stands in the table of architectures alone: code asks the driver."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tilewright.architectures.device import DESCRIBED

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "runtime/tilewright/architectures/table.py"
# SMs of Hopper's parts (H100 PCIe, H20, pairs on an H200), and of described GPUs. Fewer than 66 SMs are left
# out, because such numbers mean many things; 224 is also a number of registers.
COUNTS = {114, 78, 66} | {gpu.sm_count for gpu in DESCRIBED.values() if gpu.sm_count >= 66} - {224}
NUMBER = re.compile(r"(?<![\w.%])\d+(?![\w.])")


def in_python(text: str) -> set[int]:
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return {value for value in constants if type(value) is int}


def in_cpp(text: str) -> set[int]:
    return {int(word) for word in NUMBER.findall(re.sub(r"//.*", "", text))}


def test_the_counts() -> None:
    assert {132, 148, 170, 188} <= COUNTS
    assert in_python(TABLE.read_text(encoding="utf-8")) & COUNTS  # the test sees numbers
    assert in_cpp("int const kSms = 132;  // 148\n") == {132}


@pytest.mark.parametrize("folder", ["runtime/tilewright", "generator"])
def test_no_module_states_one(folder: str) -> None:
    stated = {
        str(path.relative_to(ROOT)): numbers
        for path in (ROOT / folder).rglob("*.py")
        if path != TABLE and (numbers := in_python(path.read_text(encoding="utf-8")) & COUNTS)
    }
    assert not stated


def test_no_device_code_states_one() -> None:
    """Lists of wgmma's registers are numbers without meaning."""
    headers = [path for path in (ROOT / "runtime/include").rglob("*.h*") if "wgmma" not in path.name]
    files = [*headers, *(ROOT / "templates").rglob("*.j2")]
    stated = {
        str(path.relative_to(ROOT)): numbers
        for path in files
        if (numbers := in_cpp(path.read_text(encoding="utf-8")) & COUNTS)
    }
    assert len(headers) > 100
    assert not stated
