"""Packed 4-bit weights as the warps of a stream kernel of `mixed_gemm` decode them, on the host."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from host_programs import ROOT, compiled

torch = pytest.importorskip("torch")

from test_mixed_decode import CONVERSION, random_weight  # noqa: E402 (they need torch)
from test_mixed_decode import HEADER as SHARED  # noqa: E402
from test_mixed_decode import STATEMENTS as SHARED_STATEMENTS  # noqa: E402
from test_mixed_fp8_decode import replaced  # noqa: E402

from tilewright.families.mixed_gemm.reference import exact  # noqa: E402

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
HEADER = "tilewright/mixed_gemm/exact_codes.hpp"
# Each statement of PTX, and what it computes.
STATEMENTS = {
    'asm("fma.rn.f16x2 %0, %1, %2, %3;"\n'
    '        : "=r"(result)\n'
    '        : "r"(masked_or<0x00F000F0>(word, magic)), "r"(kSixteenth), "r"(added));':
        "result = sm90::of_halves<F16>("
        "sm90::multiplied<F16>(masked_or<0x00F000F0>(word, magic), kSixteenth), "
        "added, [](double a, double b) { return a + b; });",
    'asm("" : "+r"(magic));  // keeps it in a register': "",
}  # fmt: skip


@cache
def program() -> Path:
    headers = {
        SHARED: replaced(SHARED, SHARED_STATEMENTS, CONVERSION, r"halves = sm90::f16_of_e4m3(\1);"),
        HEADER: replaced(HEADER, STATEMENTS, CONVERSION, r"halves = sm90::f16_of_e4m3(\1);"),
    }
    nothing = dict.fromkeys(
        (f"tilewright/sm90/{name}.hpp" for name in ("e2m1", "elements", "ptx")), "#pragma once\n"
    )
    options = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{INCLUDE}"]
    return compiled("mixed_values", [HERE / "mixed_values.cc"], options, files=headers | nothing)


@pytest.mark.parametrize(
    ("a", "name"),
    [
        ("bf16", "int4_g128"), ("bf16", "int4_g64"), ("bf16", "int4_g32"), ("bf16", "int4_zp_g128"),
        ("bf16", "int4_zp_g32"), ("f16", "int4_g128"), ("f16", "int4_zp_g32"), ("bf16", "mxfp4"),
        ("bf16", "nvfp4"), ("f16", "nvfp4"),
    ],
)  # fmt: skip
def test_numbers_and_factors_are_exact(a: str, name: str) -> None:
    """For every code, with scales of any bits: zero, subnormal, the largest, infinity and NaN, too."""
    packed, problem = random_weight(name, a)
    content = bytes(packed.weight.flatten().tolist()) + bytes(packed.scale.flatten().tolist())
    done = subprocess.run([program(), f"{a} {name}"], input=content, capture_output=True, check=True)
    actual = torch.frombuffer(bytearray(done.stdout), dtype=torch.float64).view(64, 128)
    expected = exact(packed, problem)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    assert same.all(), [
        (int(i), int(j), float(actual[i, j]), float(expected[i, j])) for i, j in (~same).nonzero()[:5]
    ]
