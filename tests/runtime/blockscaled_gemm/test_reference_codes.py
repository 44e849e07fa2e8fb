"""Codes of FP4, FP8 and UE8M0: every code, and every boundary of rounding."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from block_formats import E2M1, E4M3, E5M2, ENCODERS, EXTREMES, TABLES, nearest, neighbours, raw, same, ue8m0

from tilewright import reference
from tilewright.errors import ArgumentError, ArgumentTypeError

# Codes


def test_all_e2m1_codes() -> None:
    codes = torch.arange(16, dtype=torch.uint8)
    actual = reference.decode_e2m1(codes)
    assert actual.dtype == torch.float64
    assert actual.tolist() == [*E2M1, *(-value for value in E2M1)]
    assert math.copysign(1.0, float(actual[8])) == -1.0
    assert reference.encode_e2m1(actual.float()).tolist() == list(range(16))
    assert torch.equal(reference.decode_e2m1(codes | 0xA0), actual)


@pytest.mark.parametrize(
    ("decode", "dtype", "values"),
    [(reference.decode_e4m3, "float8_e4m3fn", E4M3), (reference.decode_e5m2, "float8_e5m2", E5M2)],
)
def test_all_codes_of_8_bits(decode: object, dtype: str, values: list[float]) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    actual = decode(codes)  # type: ignore[operator]
    assert actual[: len(values)].tolist() == values
    assert actual[128 : 128 + len(values)].tolist() == [-value for value in values]
    special = actual[len(values) : 128].tolist() + actual[128 + len(values) :].tolist()
    assert all(not math.isfinite(value) for value in special)
    assert torch.equal(
        actual.nan_to_num(nan=1e9), codes.view(getattr(torch, dtype)).double().nan_to_num(nan=1e9)
    )


def test_all_ue8m0_codes() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    actual = reference.decode_ue8m0(codes)
    assert [Fraction(value) for value in actual[:255].tolist()] == [
        Fraction(2) ** (e - 127) for e in range(255)
    ]
    assert math.isnan(actual[255])
    torchs = codes.view(torch.float8_e8m0fnu)
    assert torch.equal(actual[:255], torchs.float().double()[:255])
    assert torch.equal(reference.decode_ue8m0(torchs)[:255], actual[:255])
    # Every value is its own code, and the next larger number is the next code's.
    exact = actual[:255].float()
    assert raw(reference.encode_ue8m0(exact)) == list(range(255))
    above = [neighbours(value)[2] for value in exact.tolist()]
    assert raw(reference.encode_ue8m0(torch.tensor(above))) == [min(e + 1, 254) for e in range(255)]


@pytest.mark.parametrize("element", TABLES)
def test_every_rounding_boundary_and_its_neighbours(element: str) -> None:
    table = TABLES[element]
    middles = [(low + high) / 2 for low, high in itertools.pairwise(table)]
    beyond = table[-1] + (table[-1] - table[-2]) / 2
    points = [*table, *middles, beyond, *EXTREMES]
    values = [near for point in points for near in neighbours(point)]
    values = [*values, *(-value for value in values), math.nan, -math.nan]
    expected = [nearest(value, element) for value in values]
    assert raw(ENCODERS[element](torch.tensor(values))) == expected


def test_e2m1_thresholds_as_they_are_stated() -> None:
    stated = {0.25: 0.0, 0.75: 1.0, 1.25: 1.0, 1.75: 2.0, 2.5: 2.0, 3.5: 4.0, 5.0: 4.0}
    actual = reference.decode_e2m1(reference.encode_e2m1(torch.tensor(list(stated))))
    assert actual.tolist() == list(stated.values())


@pytest.mark.parametrize(("element", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_float8_agrees_with_torch_within_range(element: str, dtype: torch.dtype) -> None:
    largest = TABLES[element][-1]
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(1)) * torch.logspace(-9, 5, 100_000)
    values = values[values.abs() <= largest]
    assert len(values) > 50_000
    assert same(ENCODERS[element](values), values.to(dtype))


def test_every_bfloat16_and_float16() -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.bfloat16, torch.float16):
        values = bits.view(dtype)
        sizes = values.float().abs()
        assert raw(reference.encode_ue8m0(sizes)) == [ue8m0(value) for value in sizes.tolist()]
        codes = reference.encode_e2m1(values)
        assert torch.equal(codes, reference.encode_e2m1(values.float()))
        # Monotonous, odd, and off by at most half a gap.
        error = (reference.decode_e2m1(codes) - values.double().clamp(-6, 6)).abs()
        number = ~values.isnan()
        assert bool((error[number] <= (values.double().abs()[number] / 4).clamp(min=0.25)).all())
        assert bool((codes[~number] == 7).all())


def test_ue8m0_rounds_up_and_keeps_subnormals() -> None:
    values = [0.0, 2.0**-149, 2.0**-128, *neighbours(2.0**-127), *neighbours(2.0**-126), *neighbours(1.0)]
    values += [*neighbours(2.0**127), 3.4e38, math.inf, math.nan]
    assert raw(reference.encode_ue8m0(torch.tensor(values))) == [ue8m0(value) for value in values]
    with pytest.raises(ArgumentError, match="negative"):
        reference.encode_ue8m0(torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("encode", [*ENCODERS.values(), reference.encode_ue8m0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_dtypes_that_would_round_twice_are_refused(encode: object, dtype: torch.dtype) -> None:
    with pytest.raises(ArgumentTypeError, match="x: torch"):
        encode(torch.ones(2, dtype=dtype))  # type: ignore[operator]


@pytest.mark.parametrize("k", [0, 1, 2, 7, 16])
def test_packing_puts_the_even_index_into_the_low_half(k: int) -> None:
    codes = torch.randint(1, 16, (3, 2, k), dtype=torch.uint8)
    for dtype in (torch.uint8, torch.float4_e2m1fn_x2):
        data = reference.pack_e2m1(codes, dtype)
        assert data.dtype == dtype
        assert data.shape == (3, 2, (k + 1) // 2)
        for row, packed in zip(codes.reshape(6, k), data.view(torch.uint8).reshape(6, -1), strict=True):
            low, high = row[0::2].tolist(), [*row[1::2].tolist(), 0]
            assert packed.tolist() == [a + 16 * b for a, b in zip(low, high, strict=False)]
        assert torch.equal(reference.unpack_e2m1(data, k), codes)
    with pytest.raises(ArgumentError, match=f"expected {2 * ((k + 1) // 2)} or one less"):
        reference.unpack_e2m1(data, k + 2)
