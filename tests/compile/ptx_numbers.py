"""Numbers as the PTX ISA defines them: formats of 4 to 32 bits, and the arithmetic of instructions, for all
lanes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ptx_memory import LANES

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def decode(raw: np.ndarray, kind: str) -> np.ndarray:
    """Bytes [row, byte] as numbers [row, element]."""
    raw = np.ascontiguousarray(raw)
    if kind == "bf16":
        return (raw.view("u2").astype("u4") << 16).view("f4").astype("f8")
    if kind == "f16":
        return raw.view("f2").astype("f8")
    if kind == "tf32":
        return (raw.view("u4") & 0xFFFFE000).view("f4").astype("f8")
    if kind == "s8":
        return raw.view("i1").astype("f8")
    if kind == "e8m0":
        return np.ldexp(1.0, raw.astype("i4") - 127)
    if kind == "e2m1":
        codes = np.stack([raw & 15, raw >> 4], -1).reshape(*raw.shape[:-1], -1)
        return np.array(_E2M1)[codes & 7] * np.where(codes & 8, -1.0, 1.0)
    mantissa, bias = (3, 7) if kind == "e4m3" else (2, 15)
    sign = np.where(raw & 0x80, -1.0, 1.0)
    exponent, fraction = (raw & 0x7F) >> mantissa, raw & ((1 << mantissa) - 1)
    normal = np.ldexp(1 + fraction / (1 << mantissa), exponent.astype("i4") - bias)
    return sign * np.where(exponent == 0, np.ldexp(fraction / (1 << mantissa), 1 - bias), normal)


def round_to_bf16(values: np.ndarray) -> np.ndarray:
    word = values.view("u4")
    rounded = (word + np.uint32(0x7FFF) + (word >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype("u2")


def nearest_index(size: np.ndarray, values: list[float]) -> np.ndarray:
    """The index of the value that is nearest to each magnitude: of two the even one, at most the last."""
    bounds = (np.array(values[1:]) + np.array(values[:-1])) / 2
    reached = np.where(np.arange(len(bounds)) % 2 == 0, size[:, None] > bounds, size[:, None] >= bounds)
    return reached.sum(axis=1)


def _round_to_fp8(values: np.ndarray, kind: str, largest: int) -> np.ndarray:
    """The nearest FP8, at most that of code `largest`; NaN is 0x7F."""
    grid = list(decode(np.arange(largest + 1, dtype="u1"), kind))
    code = np.where(np.isnan(values), 0x7F, nearest_index(np.abs(values).astype("f8"), grid))
    return (code | np.where(np.signbit(values) & ~np.isnan(values), 0x80, 0)).astype("u2")


def round_to_e4m3(values: np.ndarray) -> np.ndarray:
    return _round_to_fp8(values, "e4m3", 0x7E)


def round_to_e5m2(values: np.ndarray) -> np.ndarray:
    return _round_to_fp8(values, "e5m2", 0x7B)


def half_of_e4m3(codes: np.ndarray) -> np.ndarray:
    halves = decode(codes.astype("u1"), "e4m3").astype("f2")
    return np.where(codes & 0x7F == 0x7F, np.float16(np.nan), halves).view("u2")


def as_floats(small: np.ndarray, kind: str) -> np.ndarray:
    return (
        small.view("f2").astype("f4") if kind == "f16" else (small.astype("u4") << np.uint32(16)).view("f4")
    )


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return (a.astype("f8") * b + c).astype("f4")


def _fma_down(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    exact, rounded = a.astype("f8") * b + c, _fma(a, b, c)
    return np.where(rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _fma_exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once: the sum of the exact product and c is rounded to odd first."""
    product, c = a.astype("f8") * b, c.astype("f8")
    total = product + c
    rest = (product - (total - c)) + (c - (total - (total - c)))
    inexact = np.isfinite(total) & (rest != 0)
    towards = np.where((rest > 0) == (total > 0), 1, -1)
    bits = total.view("i8")
    odd = np.where(inexact & (bits & 1 == 0), np.where(towards > 0, bits + 1, bits - 1), bits)
    return odd.view("f8").astype("f4")


def _saturated(values: np.ndarray) -> np.ndarray:
    """Clamped to [0, 1]; NaN becomes 0."""
    return np.where(values > 0, np.minimum(values, np.float32(1)), np.float32(0)).astype("f4")


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    whole, by = a.astype("i8"), np.where(b == 0, 1, b).astype("i8")
    return (np.abs(whole) // np.abs(by) * np.sign(whole) * np.sign(by)).astype("i4")


def _wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype("i8") * b


def _product_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype("u8") * b.astype("u8") >> np.uint64(32)).astype("u4")


def _larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), np.maximum(a, b))


def larger_pairs(a: np.ndarray, b: np.ndarray, infinity: int) -> np.ndarray:
    """The larger magnitudes of two pairs of 16 bits; NaN if either is. Signs mean nothing."""
    result = np.zeros(LANES, "u4")
    for shift in (np.uint32(0), np.uint32(16)):
        first, second = (word >> shift & np.uint32(0x7FFF) for word in (a, b))
        largest = np.maximum(first, second)
        result |= np.where(largest > infinity, np.uint32(0x7FFF), largest).astype("u4") << shift
    return result


def _larger_halves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger of each 16 bits of two words."""
    return np.maximum(*(np.ascontiguousarray(word).view("u2") for word in (a, b))).view("u4")


def _bitwise(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Bit i of the table is the result for bits a, b, c of which i is 4 a + 2 b + c."""
    result = np.zeros(LANES, "u4")
    for i in range(8):
        if int(table[0]) >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result


TESTS: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "neu": lambda a, b: ~(a == b),
}
PREDICATES: dict[str, Callable[..., np.ndarray]] = {
    "mov": np.copy,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
NUMBERS: dict[str, Callable[..., np.ndarray]] = {
    **{f"add.{kind}": np.add for kind in ("s32", "s64", "f32")},
    **{f"sub.{kind}": np.subtract for kind in ("s32", "s64", "f32")},
    **dict.fromkeys(("mul.f32", "mul.lo.s32", "mul.lo.s64"), np.multiply),
    **{f"mad.lo.{kind}": lambda a, b, c: a * b + c for kind in ("s32", "s64")},
    **{f"min.{kind}": np.minimum for kind in ("s32", "s64")},
    **{f"and.{kind}": np.bitwise_and for kind in ("b32", "b64")},
    **{f"or.{kind}": np.bitwise_or for kind in ("b16", "b32", "b64")},
    "xor.b32": np.bitwise_xor,
    "not.b32": np.invert,
    **{f"max.{kind}": np.maximum for kind in ("s32", "u32")},
    "max.u16x2": _larger_halves,
    "lop3.b32": _bitwise,
    "mul.lo.u32": np.multiply,
    "min.relu.s32": lambda a, b: np.maximum(np.minimum(a, b), 0),
    "max.NaN.f32": _larger,
    "mul.rn.f32": np.multiply,
    "mul.rn.f32x2": lambda a, b: (a.view("f4") * b.view("f4")).view("u8"),
    "mul.rn.sat.f32": lambda a, b: _saturated(a * b),
    "add.rn.f32": np.add,
    "mul.hi.u32": _product_high,
    "mul.hi.s32": lambda a, b: (a.astype("i8") * b.astype("i8") >> 32).astype("i4"),
    "rem.s32": lambda a, b: (a - b * _divide(a, b)).astype("i4"),
    "max.f32": np.fmax,
    "neg.f32": np.negative,
    "neg.s32": np.negative,
    "abs.f32": np.abs,
    "copysign.f32": lambda a, b: np.copysign(b, a),
    "div.s32": _divide,
    "div.rn.f32": np.divide,
    "mul.wide.s32": _wide_product,
    "mul.wide.u32": lambda a, b: a.astype("u8") * b,
    "fma.rn.f32": _fma_exact,
    "fma.rn.sat.f32": lambda a, b, c: _saturated(_fma_exact(a, b, c)),
    "fma.rm.f32": _fma_down,
    "ex2.approx.ftz.f32": np.exp2,
}
