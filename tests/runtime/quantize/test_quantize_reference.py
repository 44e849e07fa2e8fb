"""The reference of quantising beyond the block-scaled formats, against Python's own numbers."""

from __future__ import annotations

import bisect
import math
import struct
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import blockwise_scales, reference, scale_factors
from tilewright.errors import ArgumentError

BLOCKS = [(1, 128), (128, 128)]
SHAPES = [(1, 16), (120, 64), (129, 80), (3, 300), (130, 257), (5, 640)]
LEAST = struct.unpack("f", struct.pack("f", 1e-4))[0]
INFINITY = math.inf


def to_f32(value: Fraction) -> float:
    """The nearest float32, ties to even; infinite from 2^128 - 2^103 on."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = max(math.floor(math.log2(size)) - 24, -149)
    while size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    while exponent > -149 and size < Fraction(2) ** (exponent + 23):
        exponent -= 1
    rounded = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent  # Python rounds ties to even
    if rounded >= Fraction(2) ** 128:
        return math.copysign(INFINITY, value)
    return math.copysign(float(rounded), value)


def e4m3(value: float) -> int:
    """The code of the nearest value, of the even code where two are as near; saturates."""
    if math.isnan(value):
        return 0x7F
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    size = abs(value)
    if size >= 448:
        return 0x7E | sign
    low = bisect.bisect_right(E4M3, size) - 1
    twice, middle = 2 * size, E4M3[low] + E4M3[low + 1]  # both exact in Python's floats
    return (low + (twice > middle or (twice == middle and low % 2 == 1))) | sign


def e4m3_value(code: int) -> float:
    exponent, mantissa = code >> 3 & 15, code & 7
    return mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)


E4M3 = [e4m3_value(code) for code in range(0x7F)]


def ue8m0(value: float) -> int:
    return next(byte for byte in range(255) if 2.0 ** (byte - 127) >= value) if value < INFINITY else 254


def brute(rows: list[list[float]], block: tuple[int, int], scale_type: str) -> tuple[list[list[int]], dict]:
    """Codes of the data, and scales by (block of rows, block of columns)."""
    height, width = block
    scales: dict[tuple[int, int], float] = {}
    codes = [[0] * len(row) for row in rows]
    for r, c in {(i // height, j // width) for i, row in enumerate(rows) for j in range(len(row))}:
        places = [
            (i, j)
            for i in range(r * height, min((r + 1) * height, len(rows)))
            for j in range(c * width, min((c + 1) * width, len(rows[0])))
        ]
        sizes = [abs(rows[i][j]) for i, j in places]
        amax = math.nan if any(map(math.isnan, sizes)) else max(*sizes, LEAST)
        scale, factor = scale_and_factor(amax, scale_type)
        scales[r, c] = scale
        for i, j in places:
            codes[i][j] = e4m3(times(rows[i][j], factor))
    return codes, scales


def scale_and_factor(amax: float, scale_type: str) -> tuple[float, float]:
    """A UE8M0 scale is its byte."""
    if math.isnan(amax):
        return (math.nan if scale_type == "float32" else 255), math.nan
    share = INFINITY if amax == INFINITY else to_f32(Fraction(amax) / 448)
    if scale_type == "float32":
        return share, 0.0 if share == INFINITY else to_f32(1 / Fraction(share))
    return ue8m0(share), 2.0 ** (127 - ue8m0(share))


def times(x: float, factor: float) -> float:
    if math.isfinite(x) and math.isfinite(factor):
        product = to_f32(Fraction(x) * Fraction(factor))
        return math.copysign(product, x)  # -0, which a fraction has not
    return x * factor


def check(x: torch.Tensor, block: tuple[int, int], scale_type: str, layout: str | None = None) -> None:
    codes, scales = brute(x.float().tolist(), block, scale_type)
    data, actual = reference.quantize_fp8_blockwise(x, block, scale_type, layout)
    assert data.view(torch.uint8).tolist() == codes
    m, k = x.shape
    columns = -(-k // 128)
    if scale_type == "ue8m0":
        bytes_found = blockwise_scales.unpack(actual, columns).view(torch.uint8).tolist()
        assert bytes_found == [[scales[r // block[0], c] for c in range(columns)] for r in range(m)]
        return
    expected = [[scales[r, c] for c in range(columns)] for r in range(-(-m // block[0]))]
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("scale_type", ["float32", "ue8m0"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_fp8_blockwise_by_brute_force(
    shape: tuple[int, int], block: tuple[int, int], scale_type: str
) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(shape, generator=generator) * 10.0 ** torch.randint(
        -5, 4, (shape[0], 1), generator=generator
    )
    for dtype in (torch.float32, torch.bfloat16):
        check(x[:8].to(dtype), block, scale_type)
    check(x.bfloat16()[-3:], block, scale_type)


@given(
    st.lists(
        st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-4, 448.0, 2.0**-149]), min_size=1, max_size=9
    ),
    st.sampled_from(["float32", "ue8m0"]),
)
@settings(max_examples=200)
def test_fp8_blockwise_of_any_floats(values: list[float], scale_type: str) -> None:
    check(torch.tensor([values]), (1, 128), scale_type)


def test_amax_has_a_least_value() -> None:
    data, scales = reference.quantize_fp8_blockwise(torch.tensor([[0.0, -0.0, 5e-5]]))
    assert scales.tolist() == [[to_f32(Fraction(LEAST) / 448)]]
    assert data.view(torch.uint8)[0, :2].tolist() == [0, 0x80]
    assert abs(float(data[0, 2]) * float(scales) - 5e-5) < 5e-5 / 16


def test_an_infinity_and_a_nan() -> None:
    x = torch.tensor([[INFINITY, 1.0, -2.0], [math.nan, 1.0, -2.0]])
    data, scales = reference.quantize_fp8_blockwise(x)
    assert scales[0].item() == INFINITY
    assert scales[1].isnan().all()
    assert data.view(torch.uint8).tolist() == [[0x7F, 0, 0x80], [0x7F] * 3]
    data, scales = reference.quantize_fp8_blockwise(x, scale_type="ue8m0")
    assert blockwise_scales.unpack(scales, 1).view(torch.uint8).tolist() == [[254], [255]]
    assert data.view(torch.uint8).tolist() == [[0x7E, 0, 0x80], [0x7F] * 3]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("scale_type", ["float32", "ue8m0"])
def test_fp8_blockwise_is_read_back(block: tuple[int, int], scale_type: str) -> None:
    x = torch.randn(2, 130, 300)
    data, scales = reference.quantize_fp8_blockwise(x, block, scale_type)
    back = reference.dequantize_fp8_blockwise(data, scales, block)
    step = x.abs().amax() / 448 * (2 if scale_type == "ue8m0" else 1)
    bound = x.double().abs() * 2.0**-4 * 1.001 + step * 2.0**-10
    assert bool(((back - x.double()).abs() <= bound).all())
    columns = 3
    for b, r, c in ((0, 0, 0), (1, 129, 299), (0, 127, 128)):
        scale = (
            float(scales[b, r // block[0], c // 128])
            if scale_type == "float32"
            else 2.0
            ** (int(blockwise_scales.unpack(scales, columns).view(torch.uint8)[b, r, c // 128]) - 127)
        )
        assert float(back[b, r, c]) == float(data[b, r, c].float()) * scale


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block": (64, 128)}, "block"),
        ({"scale_type": "bf16"}, "scale_type"),
        ({"scale_layout": "packed"}, "scale_layout"),
        ({"block": (128, 128), "scale_layout": "m_major"}, "scale_layout"),
        ({"scale_type": "ue8m0", "scale_layout": "row_major"}, "scale_layout"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        reference.quantize_fp8_blockwise(torch.zeros(2, 128), **options)


@pytest.mark.parametrize("format", list(reference.FORMATS))
@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_masked_rows_have_scales_of_zero(format: str, layout: str) -> None:
    x = torch.randn(3, 130, 80)
    valid = torch.tensor([0, 129, 130], dtype=torch.int32)
    noisy = x.clone()
    for group, count in enumerate(valid.tolist()):
        noisy[group, count:] = math.nan
    data, scales = reference.quantize(noisy, format, layout=layout, rows_valid=valid)
    block = reference.FORMATS[format].block
    plain = scale_factors.unswizzle(scales, 130, 80, block, layout).view(torch.uint8)
    for group, count in enumerate(valid.tolist()):
        group_data, group_scales = reference.quantize(x[group, :count], format, layout="linear")
        assert torch.equal(data[group, :count].view(torch.uint8), group_data.view(torch.uint8))
        assert torch.equal(plain[group, :count], group_scales.view(torch.uint8))
        assert not plain[group, count:].any()


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("scale_type", ["float32", "ue8m0"])
def test_masked_rows_of_fp8_blockwise(block: tuple[int, int], scale_type: str) -> None:
    x = torch.randn(4, 260, 140)
    valid = torch.tensor([0, 129, 1, 260], dtype=torch.int32)
    noisy = x.clone()
    for group, count in enumerate(valid.tolist()):
        noisy[group, count:] = INFINITY
    data, scales = reference.quantize_fp8_blockwise(noisy, block, scale_type, rows_valid=valid)
    per_row = scale_type == "ue8m0" or block[0] == 1
    for group, count in enumerate(valid.tolist()):
        group_data, group_scales = reference.quantize_fp8_blockwise(x[group, :count], block, scale_type)
        assert torch.equal(data[group, :count].view(torch.uint8), group_data.view(torch.uint8))
        held = count if per_row else -(-count // 128)
        assert torch.equal(scales[group, :held], group_scales)
        assert not scales[group, held:].any()


def test_silu_mul_and_rms_norm_against_python() -> None:
    x = torch.randn(3, 34) * 3
    fused = reference.silu_mul(x)
    assert fused.shape == (3, 17)
    for r in range(3):
        for c in range(17):
            gate, up = float(x[r, c]), float(x[r, 17 + c])
            assert math.isclose(
                float(fused[r, c]), gate / (1 + math.exp(-gate)) * up, rel_tol=2**-23, abs_tol=1e-30
            )
    weight = torch.randn(34)
    normed = reference.rms_norm(x, weight, 1e-3)
    for r in range(3):
        mean = math.fsum(float(value) ** 2 for value in x[r]) / 34
        for c in range(34):
            expected = float(x[r, c]) / math.sqrt(mean + 1e-3) * float(weight[c])
            assert math.isclose(float(normed[r, c]), expected, rel_tol=2**-23)
    assert reference.silu_mul(torch.tensor([[-1e4, 2.0]])).item() == 0.0
    with pytest.raises(ArgumentError, match="even"):
        reference.silu_mul(x[:, :33])
    with pytest.raises(ArgumentError, match="weight"):
        reference.rms_norm(x, weight[:5])
