"""The types of C and the bias have the same numbers in Python, C and device code."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.families.gemm.problem import ADDENDS

HEADERS = Path(__file__).parents[3] / "runtime/include/tilewright"
OWN = ADDENDS[:-1]  # kernels of our own do not add integers
OF_CUTLASS = {"Float32": "f32", "Float16": "f16", "BFloat16": "bf16"}


def read(header: str) -> str:
    return (HEADERS / header).read_text(encoding="utf-8")


def test_the_launchs_struct_counts_them_so() -> None:
    numbers = re.findall(r"TILEWRIGHT_ADDEND_(\w+) = (\d+)", read("gemm/args.h"))
    assert [(name.lower(), int(number)) for name, number in numbers] == [
        (name, number) for number, name in enumerate(ADDENDS)
    ]


def test_device_code_counts_them_so() -> None:
    (body,) = re.findall(r"enum class Addend : int32_t \{([^}]*)\}", read("sm90/elements.hpp"))
    assert tuple(name.lower() for name in re.findall(r"k(\w+)", body)) == OWN
    assert f"type <= TILEWRIGHT_ADDEND_{OWN[-1].upper()};" in read("gemm/epilogue_params.hpp")


def test_kernels_of_tcgen05_count_them_so() -> None:
    (body,) = re.findall(r"^ADDENDS = \(([^)]*)\)", read("gemm/tcgen05_results.py"), re.MULTILINE)
    assert tuple(OF_CUTLASS[name] for name in re.findall(r"\w+", body)) == OWN
