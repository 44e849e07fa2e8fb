"""Packed weights as the threads of `mixed_gemm` decode them: layout and arithmetic, on the host."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from host_programs import ROOT, compiled

torch = pytest.importorskip("torch")

from tilewright import weight_formats, weight_layout  # noqa: E402 (they need torch)
from tilewright.families.mixed_gemm.problem import FORMATS, Problem  # noqa: E402
from tilewright.families.mixed_gemm.reference import decoded  # noqa: E402
from tilewright.formats.dtypes import dtype_of  # noqa: E402

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
HEADER, HEADER8 = "tilewright/mixed_gemm/decode.hpp", "tilewright/mixed_gemm/decode8.hpp"
QUICK, EARLY = "tilewright/mixed_gemm/quick.hpp", "tilewright/mixed_gemm/early_format.hpp"
# Each statement of PTX, and what it computes.
STATEMENTS = {
    'asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(x), "r"(y));':
        "difference = sm90::subtracted<Bf16>(x, y);",
    'asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));':
        "result = sm90::multiplied_added<Bf16>(x, y, z);",
    'asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));':
        "product = sm90::multiplied<F16>(x, y);",
    'asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(x), "r"(y));':
        "difference = sm90::subtracted<F16>(x, y);",
    'asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(x), "n"(kMask), "r"(bits));':
        "result = (x & kMask) | bits;",
    'asm("" : "+r"(magic));': "",
    'asm("max.u16x2 %0, %1, %2;" : "=r"(factors[row]) : "r"(scale << 7), "r"(0x00400040));':
        "factors[row] = sm90::larger_halves(scale << 7, 0x00400040);",
}  # fmt: skip
STATEMENTS8 = {
    'asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(x), "n"(kMask), "r"(bits));':
        "result = (x & kMask) ^ bits;",
    'asm("" : "+r"(magic), "+r"(upper));': "",
}  # fmt: skip
STATEMENTS_QUICK = {
    'asm volatile("" : "+r"(pair));': "",
    'asm volatile("" : "+r"(word));': "",
    "__any_sync(0xFFFFFFFF, ": "(",
}
STATEMENTS_EARLY = {
    "__any_sync(0xFFFFFFFF, !usual)": "!usual",
    "__ballot_sync(0xFFFFFFFF, !usual)": "!usual",
    'asm("{\\n.reg .pred g, h;\\n.reg .b32 magnitudes;\\nabs.bf16x2 magnitudes, %1;\\n"\n'
    '        "setp.lt.bf16x2 g|h, magnitudes, %2;\\nand.pred g, g, h;\\nselp.u32 %0, 1, 0, g;\\n}\\n"\n'
    '        : "=r"(usual)\n        : "r"(scales.words[0]), "r"(0x3D003D00));':
        "usual = (scales.words[0] & 0x7FFF) < 0x3D00 && (scales.words[0] >> 16 & 0x7FFF) < 0x3D00;",
}  # fmt: skip
# A multiplication by half s or t of both factors of a stage.
SCALED = re.compile(
    r'asm\("\{\\n\.reg \.b16 s, t, a, b;.*?scale, \{([st]), \1\};.*?"r"\(factors\.added\)\);', re.DOTALL
)
CONVERSION = re.compile(r'asm\("\{\\n\.reg \.b16 low.*?"r"\((step.*?)\)\);', re.DOTALL)


def replaced(header: str, statements: dict[str, str]) -> str:
    """The header's text with C++ for its PTX."""
    text = (INCLUDE / header).read_text()
    for statement, plain in statements.items():
        assert text.count(statement) == 1, statement
        text = text.replace(statement, plain)
    return text


def scaled_by(statement: re.Match[str]) -> str:
    """C++ for a statement that SCALED finds."""
    half = {"s": "low", "t": "high"}[statement[1]]
    factors = (f"detail::{half}_twice(factors.{name})" for name in ("scales", "added"))
    return f"result = sm90::multiplied_added<Bf16>(codes, {', '.join(factors)});"


@cache
def program() -> Path:
    text, count = CONVERSION.subn(r"halves = sm90::f16_of_e4m3(\1);", replaced(HEADER, STATEMENTS))
    assert count == 1
    early, count = SCALED.subn(scaled_by, replaced(EARLY, STATEMENTS_EARLY))
    assert count == 2
    headers = {
        HEADER: text,
        HEADER8: replaced(HEADER8, STATEMENTS8),
        QUICK: replaced(QUICK, STATEMENTS_QUICK),
        EARLY: early,
    }
    assert not any("asm" in text for text in headers.values())
    nothing = dict.fromkeys(
        (f"tilewright/sm90/{name}.hpp" for name in ("e2m1", "elements", "ptx")), "#pragma once\n"
    )
    options = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{INCLUDE}"]
    return compiled("mixed_decode", [HERE / "mixed_decode.cc"], options, files=headers | nothing)


# Bits of eight scales that are not usual ones, or, in MXFP4, at the ends of those that are.
UNUSUAL = {
    "mxfp4": [128, 255, 254, 200, 0, 129, 253, 1],
    "int4": [0, 0x0001, 0x3D00, 0x007F, 0x3F80, 0x7F80, -0x8000, -0x0001],
}


def any_scales(format: str, columns: int, dtype: torch.dtype, random: torch.Generator) -> torch.Tensor:
    """Scales of any bits."""
    if format in ("mxfp4", "nvfp4"):
        scales = torch.randint(256, (64, columns), generator=random, dtype=torch.uint8)
        scales[:4, 0] = torch.tensor([0, 255, 254, 127], dtype=torch.uint8)
        return scales
    bits = torch.randint(-(2**15), 2**15, (64, columns), generator=random).to(torch.int16)
    scales = bits.view(dtype)
    scales[8:10, 0] = torch.tensor([0.0, float("nan")])
    scales[:2] = 1.0
    return scales


def usual_scales(format: str, columns: int, random: torch.Generator) -> torch.Tensor:
    """Random usual scales, among them the least and the largest."""
    least, most = {"mxfp4": (0, 127), "int4": (0x0080, 0x3CFF)}[format]
    bits = torch.randint(least, most + 1, (64, columns), generator=random)
    bits[5, 0], bits[6, 0] = least, most
    if format != "int4":
        return bits.to(torch.uint8)
    bits[::3] |= -0x8000  # negative ones
    return bits.to(torch.int16).view(torch.bfloat16)


def random_weight(name: str, a: str, scales_of: str = "any") -> tuple[weight_layout.Packed, Problem]:
    """64 rows by 128 of k: all codes. Scales of any bits, usual ones (quick.hpp, quick_int4.hpp), or usual
    ones and a few others, of which a thread has one at most."""
    format, group = FORMATS[name]
    random = torch.Generator().manual_seed(len(name))
    columns = 128 // group
    bits = weight_formats.FORMATS[format].bits
    codes = torch.randint(1 << bits, (64, 128), generator=random, dtype=torch.uint8)
    codes[:2] = torch.arange(256).view(2, 128) % (1 << bits)
    if format == "e4m3":
        codes[(codes & 0x7F) == 0x7F] = 0x7E
    zeros = torch.randint(16, (64, columns), generator=random, dtype=torch.uint8) if "zp" in name else None
    if scales_of == "any":
        scales = any_scales(format, columns, dtype_of(a), random)
    else:
        scales = usual_scales(format, columns, random)
    if scales_of == "few":
        rows = torch.arange(0, 64, 8) + torch.arange(8)
        bits_of_scale = scales.view(torch.int16) if format == "int4" else scales
        bits_of_scale[rows, 0] = torch.tensor(UNUSUAL[format]).to(bits_of_scale.dtype)
    packed = weight_layout.pack(codes, scales, zeros, format=format, group=group)
    return packed, Problem(1, 64, 128, a=a, d=a, weight_format=name)


@pytest.mark.parametrize(
    ("a", "name"),
    [
        ("bf16", "int4_g128"), ("bf16", "int4_g64"), ("bf16", "int4_g32"), ("bf16", "int4_zp_g128"),
        ("bf16", "int4_zp_g64"), ("bf16", "int4_zp_g32"), ("f16", "int4_g128"), ("f16", "int4_zp_g32"),
        ("bf16", "mxfp4"), ("bf16", "nvfp4"), ("f16", "nvfp4"), ("bf16", "int8_g128"), ("f16", "int8_g128"),
        ("bf16", "e4m3_g128"), ("f16", "e4m3_g128"),
    ],
)  # fmt: skip
def test_each_thread_decodes_what_the_reference_says(a: str, name: str) -> None:
    check_decoded(*random_weight(name, a))


@pytest.mark.parametrize("scales_of", ["any", "usual", "few"])
@pytest.mark.parametrize("name", ["mxfp4", "int4_g128"])
def test_usual_scales_are_decoded_quickly(name: str, scales_of: str) -> None:
    """And those that are not, even if a thread has only one of them."""
    check_decoded(*random_weight(name, "bf16", scales_of), way="quick ")


@pytest.mark.parametrize("scales_of", ["any", "usual", "few"])
@pytest.mark.parametrize("name", ["mxfp4", "nvfp4", "int4_g128"])
def test_stages_that_are_loaded_early_are_decoded_so_too(name: str, scales_of: str) -> None:
    """early_format.hpp. Zeros and subnormal scales of INT4 are usual there."""
    check_decoded(*random_weight(name, "bf16", "any" if name == "nvfp4" else scales_of), way="early ")


def check_decoded(packed: weight_layout.Packed, problem: Problem, way: str = "") -> None:
    a, name = problem.a, problem.weight_format
    content = bytes(packed.weight.flatten().tolist()) + bytes(packed.scale.flatten().tolist())
    done = subprocess.run([program(), f"{way}{a} {name}"], input=content, capture_output=True, check=True)
    actual = torch.frombuffer(bytearray(done.stdout), dtype=dtype_of(a)).view(64, 128).double()
    factor = {"bf16": 256.0, "f16": 128.0}[a] if name == "nvfp4" else 1.0
    expected = decoded(packed, problem).double()
    same = (actual * factor == expected) | (actual.isnan() & expected.isnan())
    assert same.all(), [
        (int(i), int(j), float(actual[i, j]), float(expected[i, j])) for i, j in (~same).nonzero()[:5]
    ]
