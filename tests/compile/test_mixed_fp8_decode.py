"""Packed 4-bit weights as the threads of `mixed_fp8_gemm` decode them to FP8, on the host."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from host_programs import ROOT, compiled

torch = pytest.importorskip("torch")

from test_mixed_decode import CONVERSION, random_weight  # noqa: E402 (they need torch)
from test_mixed_decode import HEADER as SHARED  # noqa: E402
from test_mixed_decode import STATEMENTS as SHARED_STATEMENTS  # noqa: E402

from tilewright import weight_layout  # noqa: E402
from tilewright.families.mixed_gemm.problem import FORMATS  # noqa: E402
from tilewright.families.mixed_gemm.reference import exact  # noqa: E402

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
HEADER = "tilewright/mixed_fp8_gemm/decode.hpp"
# Each statement of PTX, and what it computes.
STATEMENTS = {
    'asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));':
        "result = sm90::of_halves<sm90::F16>(sm90::multiplied<sm90::F16>(x, y), z, [](double a, double b) "
        "{ return a + b; });",
    'asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));':
        "result = sm90::larger_halves(x, y);",
    'asm("" : "+r"(magic));': "",
    'asm volatile("" : "+r"(value));': "",
}  # fmt: skip
BLOCKS = "tilewright/mixed_fp8_gemm/mxfp4_groups.hpp"
STATEMENT_OF_BLOCKS = 'asm("fma.rn.bf16x2 %0, %1, %2, %1;" : "=r"(both) : "r"(powers), "r"(0));'
LAYOUT = "#pragma once\nnamespace tilewright::mixed_gemm { constexpr int kPieceBytes = 2048; }\n"
TO_E4M3 = re.compile(r'asm\("\{\\n\.reg \.b16 low.*?"r"\(second\)\);', re.DOTALL)


def replaced(header: str, statements: dict[str, str], pattern: re.Pattern[str], meaning: str) -> str:
    """The header's text with C++ for its PTX."""
    text = (INCLUDE / header).read_text()
    for statement, plain in statements.items():
        assert text.count(statement) == 1, statement
        text = text.replace(statement, plain)
    text, count = pattern.subn(meaning, text)
    assert count == 1
    assert "asm" not in text
    return text


@cache
def program() -> Path:
    e4m3 = "result = 0; for (int i = 0; i < 4; ++i) { result |= sm90::exact_e4m3(sm90::F16::value("
    e4m3 += "(i < 2 ? first : second) >> i % 2 * 16)) << i * 8; }"
    headers = {
        SHARED: replaced(SHARED, SHARED_STATEMENTS, CONVERSION, r"halves = sm90::f16_of_e4m3(\1);"),
        HEADER: replaced(HEADER, STATEMENTS, TO_E4M3, e4m3),
    }
    blocks = (INCLUDE / BLOCKS).read_text()
    assert blocks.count(STATEMENT_OF_BLOCKS) == blocks.count("asm(") == 1
    meaning = "both = sm90::multiplied_added<sm90::Bf16>(powers, 0, powers);"
    headers[BLOCKS] = blocks.replace(STATEMENT_OF_BLOCKS, meaning)
    headers["tilewright/mixed_fp8_gemm/mainloop.hpp"] = "#pragma once\n"
    nothing = dict.fromkeys(
        (f"tilewright/sm90/{name}.hpp" for name in ("e2m1", "elements", "ptx")), "#pragma once\n"
    )
    options = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{INCLUDE}"]
    headers["tilewright/mixed_fp8_gemm/layout.hpp"] = LAYOUT
    return compiled("mixed_fp8_decode", [HERE / "mixed_fp8_decode.cc"], options, files=headers | nothing)


def decoded(packed: weight_layout.Packed, a: str, name: str) -> torch.Tensor:
    """What a kernel answers for an identity, before it rounds to D: [64, 128] in float64."""
    content = bytes(packed.weight.flatten().tolist()) + bytes(packed.scale.flatten().tolist())
    done = subprocess.run([program(), f"{a} {name}"], input=content, capture_output=True, check=True)
    return torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).view(64, 128).double()


def differences(actual: torch.Tensor, expected: torch.Tensor) -> list[tuple[int, int, float, float]]:
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return [(int(i), int(j), float(actual[i, j]), float(expected[i, j])) for i, j in (~same).nonzero()[:5]]


@pytest.mark.parametrize(
    ("a", "name"),
    [
        ("bf16", "int4_g128"), ("bf16", "int4_g64"), ("bf16", "int4_g32"), ("bf16", "int4_zp_g128"),
        ("bf16", "int4_zp_g64"), ("bf16", "int4_zp_g32"), ("f16", "int4_g128"), ("f16", "int4_zp_g32"),
        ("bf16", "int4_g128 quick"), ("f16", "int4_g128 quick"),
    ],
)  # fmt: skip
def test_integers_and_their_scales_are_exact(a: str, name: str) -> None:
    packed, problem = random_weight(name.removesuffix(" quick"), a)
    assert not differences(decoded(packed, a, name), exact(packed, problem).float().double())


def mxfp4(scales: torch.Tensor) -> tuple[weight_layout.Packed, torch.Tensor]:
    """All codes with these scales [64, 4]; and W in float64."""
    codes = (torch.arange(128) % 16).repeat(64, 1).to(torch.uint8)
    packed = weight_layout.pack(codes, scales, format="mxfp4", group=32)
    _, problem = random_weight("mxfp4", "bf16")
    return packed, exact(packed, problem)


@pytest.mark.parametrize("first", range(0, 256, 64))
def test_mxfp4_is_exact_where_scales_lie_within_16_powers_of_two(first: int) -> None:
    """For each largest scale, and the other three 0 to 16 below it. Values that F32 does not hold, from 2^128
    up, become infinity; a scale of 255 gives NaN."""
    largest = torch.arange(first, first + 64)
    below = torch.tensor([[0, 1, 2, 3], [16, 15, 0, 14], [5, 0, 16, 16], [13, 12, 11, 0]]).repeat(16, 1)
    packed, expected = mxfp4((largest[:, None] - below).clamp(min=0).to(torch.uint8))
    expected[largest == 255] = float("nan")
    assert not differences(decoded(packed, "bf16", "mxfp4"), expected.float().double())


def test_mxfp4_loses_less_than_the_stated_bits_beyond() -> None:
    random = torch.Generator().manual_seed(1)
    scales = torch.randint(255, (64, 4), generator=random).to(torch.uint8)
    packed, expected = mxfp4(scales)
    actual = decoded(packed, "bf16", "mxfp4")
    largest = torch.exp2(scales.double().amax(1, keepdim=True) - 127)
    assert bool(((actual - expected).abs() < largest * 2.0**-17).all())
    assert bool((actual.abs() <= expected.abs()).all())  # bits are cut off


def test_mxfp4_nan() -> None:
    scales = torch.full((64, 4), 120, dtype=torch.uint8)
    scales[torch.arange(64), torch.arange(64) % 4] = 255
    packed, _ = mxfp4(scales)
    assert bool(decoded(packed, "bf16", "mxfp4").isnan().all())  # all sums of the row's 128 of k


def test_mxfp4_groups_are_exact_whatever_their_scales() -> None:
    """Where each group of 32 is promoted: every code with every scale, those of a row far apart."""
    scales = (torch.arange(256).view(64, 4) * 77 % 256).to(torch.uint8)
    assert len(scales.unique()) == 256
    packed, expected = mxfp4(scales)
    wide = scales.repeat_interleave(32, 1)
    expected[wide == 255] = float("nan")
    assert not differences(decoded(packed, "bf16", "mxfp4 groups"), expected.float().double())


def test_formats_are_those_of_problems() -> None:
    from tilewright.families.mixed_fp8_gemm.problem import FORMATS as OWN  # noqa: PLC0415

    assert set(FORMATS) - set(OWN) == {"nvfp4", "int8_g128", "e4m3_g128"}
