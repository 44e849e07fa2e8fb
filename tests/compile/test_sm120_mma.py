"""mma.sync of sm_120 in software (`sm120/mma_definition.hpp`), against the PTX ISA and torch's types.

No GPU of sm_12x has run these kernels. Where the instruction is missing, its place is taken by this
software, so a wrong layout here would hide the same fault in a kernel.
"""

from __future__ import annotations

import ctypes
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from host_programs import ROOT, compiled

HERE = Path(__file__).parent
LANES = range(32)


class Form(NamedTuple):
    """A form of mma.sync: k, the bits of an element, the types, and scale factors along k with their type."""

    k: int
    bits: int
    a: str
    b: str
    blocks: int = 0
    scales: str = ""


FORMS = {
    "bf16": Form(16, 16, "bf16", "bf16"),
    "f16": Form(16, 16, "f16", "f16"),
    "s8": Form(32, 8, "s8", "s8"),
    "e4m3_e4m3": Form(32, 8, "e4m3", "e4m3"),
    "e4m3_e5m2": Form(32, 8, "e4m3", "e5m2"),
    "e5m2_e4m3": Form(32, 8, "e5m2", "e4m3"),
    "e5m2_e5m2": Form(32, 8, "e5m2", "e5m2"),
    "mx_e4m3_e4m3": Form(32, 8, "e4m3", "e4m3", 1, "ue8m0"),
    "mx_e4m3_e2m1": Form(32, 8, "e4m3", "e2m1_in_bytes", 1, "ue8m0"),
    "mx_e2m1_e5m2": Form(32, 8, "e2m1_in_bytes", "e5m2", 1, "ue8m0"),
    "mx_e2m1_e2m1": Form(32, 8, "e2m1_in_bytes", "e2m1_in_bytes", 1, "ue8m0"),
    "mxf4": Form(64, 4, "e2m1", "e2m1", 2, "ue8m0"),
    "nvf4": Form(64, 4, "e2m1", "e2m1", 4, "ue4m3"),
}

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def torch_values(dtype: torch.dtype, storage: torch.dtype) -> list[float]:
    bits = 8 * torch.empty(0, dtype=storage).element_size()
    codes = torch.arange(1 << bits, dtype=torch.int32).to(storage)
    values: list[float] = codes.view(dtype).to(torch.float64).tolist()
    return values


@functools.cache
def values_of(name: str) -> list[float]:
    """What each code means, from torch and from the published table of E2M1."""
    match name:
        case "bf16":
            return torch_values(torch.bfloat16, torch.int16)
        case "f16":
            return torch_values(torch.float16, torch.int16)
        case "s8":
            return torch_values(torch.int8, torch.uint8)
        case "e4m3":
            return torch_values(torch.float8_e4m3fn, torch.uint8)
        case "e5m2":
            return torch_values(torch.float8_e5m2, torch.uint8)
        case "e2m1":
            return E2M1
        case "e2m1_in_bytes":
            return [E2M1[code >> 2 & 15] for code in range(256)]
        case "ue8m0":
            return torch_values(torch.float8_e8m0fnu, torch.uint8)
        case "ue4m3":
            return [torch_values(torch.float8_e4m3fn, torch.uint8)[code & 127] for code in range(256)]
    raise AssertionError(name)


# PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "... mma.m16n8k32" and
# "... mma.m16n8k64", by the text beside the figures: row and k of a thread's element i of A, column and k of
# its element i of B.


def a_place(k: int, lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    match k:
        case 16:
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            return row, thread * 2 + (i & 1) + (0 if i < 4 else 8)
        case 32:
            row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
            return row, thread * 4 + (i & 3) + (0 if i < 8 else 16)
        case _:
            row = group if 0 <= i < 8 or 16 <= i < 24 else group + 8
            return row, thread * 8 + (i & 7) + (0 if i < 16 else 32)


def b_place(k: int, lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    match k:
        case 16:
            return group, thread * 2 + (i & 1) + (0 if i < 2 else 8)
        case 32:
            return group, thread * 4 + (i & 3) + (0 if i < 4 else 16)
        case _:
            return group, thread * 8 + (i & 7) + (0 if i < 8 else 32)


def d_place(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (0 if i < 2 else 8), lane % 4 * 2 + (i & 1)


Matrix = list[list[int]]


def registers(
    form: Form, codes: Matrix, words: int, place: Callable[[int, int, int], tuple[int, int]]
) -> Any:
    """A fragment's registers, [32][words], of a matrix of codes."""
    filled = (ctypes.c_uint32 * words * 32)()
    elements = 32 // form.bits
    for lane in LANES:
        for i in range(words * elements):
            row, k = place(form.k, lane, i)
            filled[lane][i // elements] |= codes[row][k] << form.bits * (i % elements)
    return filled


def scale_registers(codes: Matrix, first_byte: int, lane_of: Callable[[int], int], rng: random.Random) -> Any:
    """Registers of scale factors; bytes and lanes that the instruction does not take hold others."""
    filled = (ctypes.c_uint32 * 32)(*(rng.getrandbits(32) for _ in LANES))
    for row, factors in enumerate(codes):
        word = bytearray(filled[lane_of(row)].to_bytes(4, "little"))
        word[first_byte : first_byte + len(factors)] = factors
        filled[lane_of(row)] = int.from_bytes(word, "little")
    return filled


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    options = ["-std=c++17", "-O1", "-fPIC", f"-I{ROOT / 'runtime/include'}"]
    return ctypes.CDLL(str(compiled("sm120_mma", [HERE / "sm120_mma.cc"], options, link=["-shared"])))


@pytest.mark.parametrize(
    "name", ["bf16", "f16", "s8", "e4m3", "e5m2", "e2m1", "e2m1_in_bytes", "ue8m0", "ue4m3"]
)
def test_every_code_has_its_value(library: ctypes.CDLL, name: str) -> None:
    expected = torch.tensor(values_of(name), dtype=torch.float64)
    actual = torch.full_like(expected, 12345.0)
    getattr(library, f"codes_{name}")(ctypes.c_void_p(actual.data_ptr()))
    assert torch.equal(actual.nan_to_num(12345.0, posinf=1e300), expected.nan_to_num(12345.0, posinf=1e300))
    assert torch.equal(actual.signbit()[expected == 0], expected.signbit()[expected == 0])


@functools.cache
def small_codes(name: str) -> list[int]:
    """Codes for which a double holds a sum of 64 products of two elements and two factors exactly."""
    values = values_of(name)
    return [
        code for code, value in enumerate(values) if 2**-5 <= abs(value) <= 64 and abs(value) * 32 % 1 == 0
    ]


@pytest.mark.parametrize("selectors", [(0, 0, 0, 0), (1, 3, 1, 2), (2, 0, 0, 3), (3, 2, 1, 1)])
@pytest.mark.parametrize("name", FORMS)
def test_products(library: ctypes.CDLL, name: str, selectors: tuple[int, int, int, int]) -> None:
    """Every element of D, added to what it held, from random elements and scale factors."""
    form, rng = FORMS[name], random.Random(f"{name} {selectors}")
    step = max(form.blocks, 1)
    byte_a, byte_b = selectors[0] // step * step, selectors[1] // step * step
    thread_a, thread_b = selectors[2:]
    a = [[rng.choice(small_codes(form.a)) for _ in range(form.k)] for _ in range(16)]
    b = [[rng.choice(small_codes(form.b)) for _ in range(form.k)] for _ in range(8)]
    c = [[rng.randrange(-1000, 1000) for _ in range(8)] for _ in range(16)]
    scales = small_codes(form.scales) if form.scales else [0]
    a_scales = [[rng.choice(scales) for _ in range(form.blocks)] for _ in range(16)]
    b_scales = [[rng.choice(scales) for _ in range(form.blocks)] for _ in range(8)]
    sums = ((ctypes.c_int32 if name == "s8" else ctypes.c_float) * 4 * 32)()
    for lane in LANES:
        for i in range(4):
            row, column = d_place(lane, i)
            sums[lane][i] = c[row][column]
    # "Block scaling for mma.sync": with thread-id t, threads 2t and 2t + 1 of a quad have the factors of A's
    # rows g and g + 8, and thread t has those of B's column g.
    getattr(library, name)(
        sums,
        registers(form, a, 4, a_place),
        registers(form, b, 2, b_place),
        scale_registers(a_scales, byte_a, lambda row: row % 8 * 4 + 2 * thread_a + row // 8, rng),
        scale_registers(b_scales, byte_b, lambda column: column * 4 + thread_b, rng),
        byte_a, byte_b, thread_a, thread_b,
    )  # fmt: skip
    a_values, b_values, factors = values_of(form.a), values_of(form.b), values_of(form.scales or "ue8m0")
    for lane in LANES:
        for i in range(4):
            row, column = d_place(lane, i)
            expected = float(c[row][column])
            for k in range(form.k):
                product = a_values[a[row][k]] * b_values[b[column][k]]
                if form.blocks:
                    block = k * form.blocks // form.k
                    product *= factors[a_scales[row][block]] * factors[b_scales[column][block]]
                expected += product
            rounded = expected if name == "s8" else ctypes.c_float(expected).value
            assert sums[lane][i] == rounded, (row, column)


def test_sums_of_int8_wrap_around(library: ctypes.CDLL) -> None:
    form = FORMS["s8"]
    sums = (ctypes.c_int32 * 4 * 32)(*[(ctypes.c_int32 * 4)(*[2**31 - 1] * 4)] * 32)
    a = registers(form, [[0x7F] * 32] * 16, 4, a_place)
    b = registers(form, [[1] * 32] * 8, 2, b_place)
    library.s8(sums, a, b, (ctypes.c_uint32 * 32)(), (ctypes.c_uint32 * 32)(), 0, 0, 0, 0)
    assert {value for lane in sums for value in lane} == {2**31 - 1 + 127 * 32 - 2**32}
