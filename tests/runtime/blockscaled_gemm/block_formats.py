"""Codes of FP4 and FP8 from their definitions, and block-scaled quantization one element after another."""

from __future__ import annotations

import bisect
import math
import struct

import torch

from tilewright import reference, scale_factors

FORMATS = list(reference.FORMATS)
SHAPES = [(1, 128), (31, 256), (127, 136), (120, 64), (129, 80), (1, 16), (3, 23), (2, 1)]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
EXTREMES = [0.0, 2.0**-149, 2.0**-127, 2.0**-126, 1.0, 3.4028234663852886e38, math.inf]


def f32(value: float) -> float:
    """Rounded to float32, to nearest even; struct refuses what overflows."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def neighbours(value: float) -> list[float]:
    """A float32, the one below, and the one above."""
    bits = struct.unpack("i", struct.pack("f", value))[0]
    return [struct.unpack("f", struct.pack("i", max(bits + step, 0)))[0] for step in (-1, 0, 1)]


def small_float(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    """The value of a sign, exponent, mantissa code, special ones left aside."""
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = -1.0 if code >> (mantissa_bits + exponent_bits) else 1.0
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)


E4M3 = [small_float(code, 4, 3, 7) for code in range(0x7F)]  # 0x7F is NaN
E5M2 = [small_float(code, 5, 2, 15) for code in range(0x7C)]  # infinity and NaNs above
TABLES = {"e2m1": E2M1, "e4m3": E4M3, "e5m2": E5M2}
ENCODERS = {
    "e2m1": reference.encode_e2m1,
    "e4m3": reference.encode_e4m3,
    "e5m2": reference.encode_e5m2,
}
NAN_CODE = {"e2m1": 7, "e4m3": 0x7F, "e5m2": 0x7F}
SIGN = {"e2m1": 8, "e4m3": 0x80, "e5m2": 0x80}


def nearest(value: float, element: str) -> int:
    """The code of the nearest value, of the even code where two are as near; saturates."""
    if math.isnan(value):
        return NAN_CODE[element]
    table = TABLES[element]
    sign = SIGN[element] if math.copysign(1.0, value) < 0 else 0
    size = abs(value)
    if size >= table[-1]:
        return len(table) - 1 | sign
    low = bisect.bisect_right(table, size) - 1
    twice, middle = 2 * size, table[low] + table[low + 1]  # both exact in Python's floats
    return (low + (twice > middle or (twice == middle and low % 2 == 1))) | sign


def ue8m0(value: float) -> int:
    """The least e with 2^(e-127) >= value."""
    if math.isnan(value):
        return 255
    return next((e for e in range(255) if value <= 2.0 ** (e - 127)), 254)


def raw(tensor: torch.Tensor) -> list[int]:
    return tensor.view(torch.uint8).flatten().tolist()


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return torch.equal(found.view(torch.uint8), wanted.view(torch.uint8))


# Quantising


def brute_force(x: list[list[float]], name: str, gs: list[float]) -> tuple[list[list[int]], list[list[int]]]:
    """Codes of elements and of scales, by the definition, one number at a time."""
    kind = reference.FORMATS[name]
    data, scales = [], []
    for row, row_gs in zip(x, gs, strict=True):
        data.append([])
        scales.append([])
        for start in range(0, len(row), kind.block):
            block = row[start : start + kind.block]
            amax = math.nan if any(map(math.isnan, block)) else max(map(abs, block))
            share = f32(amax / kind.max)
            if kind.scale == "e4m3":
                code = nearest(f32(row_gs * share), "e4m3")
                scale = math.nan if code == 0x7F else E4M3[code]
                inverse = f32(scale / row_gs)
                factor = f32(1 / inverse) if inverse else math.inf
            else:
                code = ue8m0(share)
                factor = math.nan if code == 255 else 2.0 ** (127 - code)
            factor = 0.0 if amax == 0 else factor
            data[-1] += [nearest(f32(value * factor), kind.element) for value in block]
            scales[-1].append(code)
    return data, scales


def codes_of(data: torch.Tensor, name: str, k: int) -> list[list[int]]:
    if reference.FORMATS[name].element == "e2m1":
        return reference.unpack_e2m1(data, k).tolist()
    return data.view(torch.uint8).tolist()


def check_against_brute_force(x: torch.Tensor, name: str, gs: object, layout: str) -> None:
    kind = reference.FORMATS[name]
    m, k = x.shape
    data, scales = reference.quantize(x, name, gs, layout)
    assert data.dtype == kind.dtype
    assert scales.dtype == kind.scale_dtype
    assert data.shape == (m, -(-k * kind.bits // 8))
    assert scales.shape == scale_factors.padded_shape(m, k, kind.block, layout)
    factors = [1.0] * m if gs is None else torch.as_tensor(gs, dtype=torch.float32).expand(m).tolist()
    wanted_data, wanted_scales = brute_force(x.float().tolist(), name, factors)
    assert codes_of(data, name, k) == wanted_data
    actual = scale_factors.unswizzle(scales, m, k, kind.block, layout)
    assert actual.view(torch.uint8).tolist() == wanted_scales
    # No padding but zeros: as many bytes differ from 0 as scales do.
    assert int((scales.view(torch.uint8) != 0).sum()) == sum(
        code != 0 for row in wanted_scales for code in row
    )


def matrix(shape: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rows of very different sizes, a row of zeros, and blocks of zeros."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    x *= 2.0 ** torch.randint(-6, 7, (*shape[:-1], 1), generator=generator)
    x[..., -1, :] *= float(shape[-2] == 1)
    x[..., ::3, 32:64] = 0
    return x.to(dtype)


def operands(
    m: int, n: int, k: int, pair: tuple[str, str], layout: str = "128x4"
) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(m + n + k)
    a, b = (torch.randn(rows, k, generator=generator) for rows in (m, n))
    a_data, a_scales = reference.quantize(a * 3, pair[0], layout=layout)
    b_data, b_scales = reference.quantize(b, pair[1], layout=layout)
    return a_data, b_data.mT, a_scales, b_scales
