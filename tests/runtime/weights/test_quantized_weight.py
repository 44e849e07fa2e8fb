"""What a quantised weight means, what it refuses, and how it is cut and joined."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

import tilewright
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights import QuantizedWeight, concatenate, stack

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)


def e2m1(code: int) -> float:
    return math.copysign(E2M1[code & 7], -1 if code & 8 else 1)


def e4m3(code: int) -> float:
    """By the OCP definition of 8-bit floating point: bias 7, subnormals, no infinities."""
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 127 == 127:
        return math.nan
    size = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return math.copysign(size, -1 if code & 128 else 1)


def ue8m0(code: int) -> float:
    return math.nan if code == 255 else 2.0 ** (code - 127)


def same(actual: float, expected: float) -> bool:
    """Equal, with the sign of zero; NaN is NaN."""
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


def random_weight(
    format: str, n: int, k: int, group: int, *, zeros: bool = False, seed: int = 0
) -> QuantizedWeight:
    generator = torch.Generator().manual_seed(seed)
    limit = 256 if format in {"int8", "e4m3"} else 16
    columns = 1 if group == -1 else -(-k // group)
    codes = torch.randint(0, limit, (n, k), generator=generator, dtype=torch.uint8)
    scales = torch.rand((n, columns), generator=generator).half()
    if format == "mxfp4":
        scales = (
            torch.randint(0, 255, (n, columns), generator=generator)
            .to(torch.uint8)
            .view(torch.float8_e8m0fnu)
        )
    if format == "nvfp4":
        scales = scales.to(torch.float8_e4m3fn)
    points = torch.randint(0, limit, (n, columns), generator=generator, dtype=torch.uint8) if zeros else None
    return QuantizedWeight(codes, scales, group, format, points)  # type: ignore[arg-type]


@pytest.mark.parametrize(("format", "group", "bits"), [("mxfp4", 32, 8), ("nvfp4", 16, 8)])
def test_every_code_with_every_scale(format: str, group: int, bits: int) -> None:
    """Also zero, subnormal, largest and NaN scales; a row for each scale."""
    codes = torch.arange(32, dtype=torch.uint8).remainder(16).expand(256, 32).contiguous()
    octets = torch.arange(256, dtype=torch.uint8).unsqueeze(1).expand(256, 32 // group).contiguous()
    dtype, value = (torch.float8_e8m0fnu, ue8m0) if format == "mxfp4" else (torch.float8_e4m3fn, e4m3)
    weight = QuantizedWeight(codes, octets.view(dtype), group, format).dequantize()  # type: ignore[arg-type]
    assert weight.dtype == torch.float64
    for scale in range(2**bits):
        for code in range(16):
            assert same(weight[scale, code].item(), e2m1(code) * value(scale)), (scale, code)


def test_every_code_of_e4m3() -> None:
    codes = torch.arange(256, dtype=torch.uint8).reshape(8, 32)
    scales = torch.tensor([0.0, -0.75, 2.0**-149, 3e38, math.inf, math.nan, 1.0, 1e-3]).unsqueeze(1)
    weight = QuantizedWeight(codes, scales, -1, "e4m3").dequantize()
    for row in range(8):
        for column in range(32):
            expected = e4m3(32 * row + column) * scales[row].double().item()
            assert same(weight[row, column].item(), expected), (row, column)


@pytest.mark.parametrize(("format", "middle"), [("int4", 8), ("int8", 128)])
def test_integers_subtract_their_zero_points(format: str, middle: int) -> None:
    weight = random_weight(format, 8, 80, 32, zeros=True)
    assert weight.zeros is not None
    decoded = weight.dequantize()
    plain = QuantizedWeight(weight.codes, weight.scales, 32, weight.format).dequantize()
    for row in range(8):
        for column in range(80):
            scale = weight.scales[row, column // 32].item()
            code, zero = int(weight.codes[row, column]), int(weight.zeros[row, column // 32])
            assert decoded[row, column].item() == (code - zero) * scale
            assert plain[row, column].item() == (code - middle) * scale


def test_float64_is_exact_and_float32_is_rounded_once() -> None:
    weight = random_weight("nvfp4", 8, 64, 16)
    factor = torch.tensor(0.1, dtype=torch.float32).item()
    weight = QuantizedWeight(weight.codes, weight.scales, 16, "nvfp4", global_scale=factor)
    decoded, rounded = weight.dequantize(), weight.dequantize(torch.float32)
    assert rounded.dtype == torch.float32
    for row in range(8):
        for column in range(64):
            value = Fraction(e2m1(int(weight.codes[row, column])))
            value *= Fraction(weight.scales[row, column // 16].float().item()) * Fraction(factor)
            assert Fraction(decoded[row, column].item()) == value
            assert rounded[row, column] == torch.tensor(float(value), dtype=torch.float32)


def test_the_largest_value_of_mxfp4_is_beyond_float32() -> None:
    scales = torch.tensor([[254]], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    weight = QuantizedWeight(torch.full((1, 32), 7, dtype=torch.uint8), scales, 32, "mxfp4")
    assert weight.dequantize()[0, 0].item() == 6 * 2.0**127
    assert weight.dequantize(torch.float32)[0, 0].item() == math.inf


CODES = torch.zeros((8, 64), dtype=torch.uint8)
HALVES = torch.ones((8, 2), dtype=torch.float16)
EXPONENTS = torch.zeros((8, 4), dtype=torch.uint8).view(torch.float8_e8m0fnu)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "int5"}, "format: 'int5', expected one of int4, int8, mxfp4, nvfp4, e4m3"),
        ({"codes": CODES[0]}, "codes: expected .n, k. or .experts, n, k., none of them 0, got .64,."),
        ({"codes": CODES.int()}, "codes: expected a tensor of uint8, got torch.int32"),
        ({"codes": CODES + 16}, "codes: 16, expected 0 to 15 for int4"),
        (
            {"scales": HALVES[:, :1]},
            r"scales: expected shape \(8, 2\) \(one for each 32 of 64\), got \(8, 1\)",
        ),
        ({"scales": HALVES.double()}, "scales: expected a tensor of float16 or bfloat16 or float32"),
        ({"scales": 1.0}, "scales: expected a tensor, got float"),
        ({"group": 0}, "group: 0, expected 1 or more, or -1 for one scale a row"),
        ({"group": -1}, r"scales: expected shape \(8, 1\)"),
        ({"format": "mxfp4", "group": 16, "scales": EXPONENTS}, "group: 16, expected 32 for mxfp4"),
        ({"format": "mxfp4"}, "scales: expected a tensor of float8_e8m0fnu, got torch.float16"),
        ({"zeros": CODES[:, :1]}, r"zeros: expected shape \(8, 2\)"),
        ({"zeros": CODES[:, :2] + 16}, "zeros: 16, expected 0 to 15 for int4"),
        ({"format": "e4m3", "zeros": CODES[:, :2]}, "zeros: e4m3 has no zero points, expected None"),
        ({"global_scale": (1.0, 2.0)}, "global_scale: 2 factors, expected None: one an expert"),
        ({"global_scale": [1.0]}, "global_scale: expected a number or a tuple of numbers, got list"),
        ({"global_scale": torch.ones(())}, "global_scale: expected a number or a tuple .*, got Tensor"),
        ({"group": 32.0}, "group: expected an int, got float"),
        ({"scales": HALVES.to("meta")}, "scales: it is on meta, codes on cpu; expected the same device"),
        ({"zeros": CODES[:, :2].to("meta")}, "zeros: it is on meta, codes on cpu; expected the same device"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    fields = {"codes": CODES, "scales": HALVES, "group": 32, "format": "int4"} | changes
    with pytest.raises(ArgumentError, match=f"^{message}"):
        QuantizedWeight(**fields)


def test_a_wrong_dtype_is_a_type_error() -> None:
    with pytest.raises(ArgumentTypeError):
        QuantizedWeight(CODES, HALVES.double(), 32, "int4")


@pytest.mark.parametrize(("format", "group"), [("int4", 64), ("int8", 16), ("nvfp4", 16), ("e4m3", -1)])
def test_a_shard_is_that_part_of_the_weight(format: str, group: int) -> None:
    weight = random_weight(format, 40, 160, group, zeros=format.startswith("int"))
    whole = weight.dequantize()
    rows = weight.shard("n", 8, 40)
    torch.testing.assert_close(rows.dequantize(), whole[8:40], rtol=0, atol=0, equal_nan=True)
    start = 64 if group == 64 else 96
    for first, last in ((0, start), (start, 160)):
        part = weight.shard("k", first, last)
        assert (part.n, part.k, part.group) == (40, last - first, group)
        torch.testing.assert_close(part.dequantize(), whole[:, first:last], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("axis", "start", "stop", "message"),
    [
        ("n", 0, 20, "stop: 20 of n, expected a multiple of 8\nthe nearest legal bounds are 16 and 24"),
        ("n", 4, 8, "start: 4 of n, expected a multiple of 8\nthe nearest legal bounds are 0 and 8"),
        ("k", 0, 96, "stop: 96 of k, expected a multiple of 64\nthe nearest legal bounds are 64 and 128"),
        (
            "k",
            144,
            160,
            "start: 144 of k, expected a multiple of 64\nthe nearest legal bounds are 128 and 160",
        ),
        ("k", 64, 64, "stop: 64, expected more than the start, 64"),
        ("k", 0, 161, "stop: 161, expected 0 to 160, the extent of k"),
        ("m", 0, 8, "axis: 'm', expected one of n, k"),
    ],
)
def test_a_shard_elsewhere_is_refused(axis: Any, start: int, stop: int, message: str) -> None:
    weight = random_weight("int4", 40, 160, 64)
    with pytest.raises(ArgumentError) as caught:
        weight.shard(axis, start, stop)
    assert str(caught.value) == message


def test_groups_of_16_are_cut_at_32() -> None:
    with pytest.raises(ArgumentError, match="stop: 48 of k, expected a multiple of 32"):
        random_weight("nvfp4", 8, 160, 16).shard("k", 0, 48)


def test_experts_of_a_stack() -> None:
    experts = [random_weight("int4", 8, 64, 32, zeros=number != 1, seed=number) for number in range(3)]
    stacked = stack(experts)
    assert stacked.experts == 3
    assert repr(stacked) == "QuantizedWeight(int4 [3, 8, 64], group 32, float16 scales, zero points)"
    decoded = stacked.dequantize()
    for number, weight in enumerate(experts):
        assert torch.equal(decoded[number], weight.dequantize())
    part = stacked.shard("k", 32, 64).dequantize()
    assert torch.equal(part, decoded[..., 32:])


def test_experts_keep_their_global_scales() -> None:
    weight = random_weight("nvfp4", 8, 32, 16)
    factors = (0.5, 1.0, 0.25)
    experts = [QuantizedWeight(weight.codes, weight.scales, 16, "nvfp4", global_scale=x) for x in factors]
    stacked = stack(experts)
    assert stacked.global_scale == factors
    for number, factor in enumerate(factors):
        assert torch.equal(stacked.dequantize()[number], weight.dequantize() * factor)
    assert stack([weight, weight]).global_scale == 1.0
    with pytest.raises(ArgumentError, match=r"expected one global scale, got \[0.25, 0.5, 1.0\]"):
        concatenate(experts)


def test_projections_of_one_input() -> None:
    query, key = random_weight("int8", 16, 64, 32, zeros=True), random_weight("int8", 8, 64, 32, seed=1)
    fused = concatenate([query, key])
    assert (fused.n, fused.k) == (24, 64)
    assert torch.equal(fused.dequantize(), torch.cat((query.dequantize(), key.dequantize())))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "weights: none, expected one or more"),
        (
            [random_weight("int4", 8, 64, 32), random_weight("int4", 8, 64, 64)],
            "weights: expected one format",
        ),
        ([stack([random_weight("int4", 8, 64, 32)])], "weights: a stack of experts is among them"),
    ],
)
@pytest.mark.parametrize("join", [stack, concatenate])
def test_what_cannot_be_joined(join: Any, weights: list[QuantizedWeight], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        join(weights)


def test_shapes_that_cannot_be_joined() -> None:
    weight = random_weight("int4", 8, 64, 32)
    with pytest.raises(ArgumentError, match=r"experts: expected one shape, got \[\(8, 64\), \(16, 64\)\]"):
        stack([weight, random_weight("int4", 16, 64, 32)])
    with pytest.raises(ArgumentError, match=r"projections: expected one k, got \[64, 128\]"):
        concatenate([weight, random_weight("int4", 8, 128, 32)])


def test_it_is_a_name_of_the_package() -> None:
    assert tilewright.QuantizedWeight is QuantizedWeight
    assert tilewright.weights.stack is stack
