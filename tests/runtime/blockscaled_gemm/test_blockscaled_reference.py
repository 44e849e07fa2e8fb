"""The reference of block-scaled arithmetic, against brute force in Python's own floats and fractions."""

from __future__ import annotations

import bisect
import itertools
import math
import struct
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402 (torch decides whether this module is there)
from hypothesis import strategies as st  # noqa: E402

from tilewright import reference, scale_factors  # noqa: E402
from tilewright.errors import ArgumentError, ArgumentTypeError  # noqa: E402

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


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_quantize_is_its_definition(m: int, k: int, name: str) -> None:
    for seed, layout in enumerate(scale_factors.LAYOUTS):
        x = matrix((m, k), seed, (torch.float32, torch.bfloat16, torch.float16)[seed])
        gs = float(reference.nvfp4_global_scale(x)) if name == "nvfp4" else None
        check_against_brute_force(x, name, gs, layout)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_quantize_float8(dtype: torch.dtype) -> None:
    check_against_brute_force(matrix((5, 40)).clamp(-448, 448).to(dtype), "nvfp4", 3.7, "128x4")


def test_a_global_scale_for_each_row() -> None:
    x = matrix((6, 48))
    gs = reference.nvfp4_global_scale(x, dim=-1)
    assert gs.shape == (6,)
    check_against_brute_force(x, "nvfp4", gs, "8x4")
    data, scales = reference.quantize(x, "nvfp4", gs)
    for row in range(6):
        alone = reference.quantize(x[row : row + 1], "nvfp4", gs[row])
        assert torch.equal(alone[0][0], data[row])
    back = reference.dequantize(data, scales, "nvfp4", global_scale=gs)
    assert float((back - x).norm() / x.norm()) < 0.12


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("gs", [1.0, 1e-3, 5e4, 1e38])
def test_zeros_subnormals_infinities_and_nans(name: str, gs: float) -> None:
    special = [0.0, -0.0, 2.0**-149, -(2.0**-130), 2.0**-126, 1e-30, -1.0, 448.0, 3e38, math.inf, -math.inf]
    rows = [[value, *([other] * 39)] for value in [*special, math.nan] for other in (0.0, -0.0, 1e-42, 1.5)]
    check_against_brute_force(torch.tensor(rows), name, gs if name == "nvfp4" else None, "128x4")


def test_what_is_documented_of_special_values() -> None:
    x = torch.full((4, 64), 6.0)
    x[0, 3], x[1, 3], x[2, :16] = math.nan, -math.inf, 1e-20
    for name in FORMATS:
        kind = reference.FORMATS[name]
        data, scales = reference.quantize(x, name)
        back = reference.dequantize(data, scales, name)
        assert bool(back[0, : kind.block].isnan().all()), name
        assert bool(back[0, kind.block :].isfinite().all()), name
        largest = kind.max * (448.0 if kind.scale == "e4m3" else 2.0**127)
        assert float(back[1, 3]) == -largest
        assert torch.equal(back[3], x[3].double())
    data, scales = reference.quantize(x, "nvfp4")
    assert int(scale_factors.unswizzle(scales.view(torch.uint8), 4, 64, 16)[2, 0]) == 0
    assert data[2, :8].tolist() == [0x77] * 8
    assert float(reference.dequantize(data, scales, "nvfp4")[2, :16].abs().max()) == 0


def test_every_operation_rounds_on_its_own() -> None:
    """Blocks at E4M3's boundaries, elements at E2M1's: another order of operations ends on the other side."""
    gs = torch.rand(4, generator=torch.Generator().manual_seed(3)).exp().tolist()
    for factor in gs:
        middles = [(low + high) / 2 for low, high in itertools.pairwise(E4M3[8:])]
        largest = [near for middle in middles for near in neighbours(f32(6 * middle / factor))]
        rows = []
        for amax in largest:
            scale = E4M3[nearest(f32(factor * f32(amax / 6)), "e4m3")]
            ties = [f32(tie * scale / factor) for tie in (0.25, 0.75, 1.25, 1.75, 2.5)]
            rows.append([amax, *(near for tie in ties for near in neighbours(tie))])
        check_against_brute_force(torch.tensor(rows), "nvfp4", factor, "linear")


def test_global_scale() -> None:
    x = torch.tensor([[0.1, -7.3], [2.0, 0.0]])
    assert float(reference.nvfp4_global_scale(x)) == f32(2688.0 / f32(7.3))
    assert reference.nvfp4_global_scale(x, dim=-1).tolist() == [f32(2688.0 / f32(7.3)), 1344.0]
    assert float(reference.nvfp4_global_scale(torch.zeros(3))) == 1.0
    assert reference.nvfp4_global_scale(torch.zeros(2, 0), dim=-1).tolist() == [1.0, 1.0]
    assert float(reference.nvfp4_global_scale(torch.full((3,), 1e-40))) == f32(3.4028234663852886e38)
    # The largest block's scale is the largest scale.
    scales = reference.quantize(x, "nvfp4", reference.nvfp4_global_scale(x))[1]
    assert float(reference.decode_e4m3(scales).max()) == 448.0
    for name in ("mxfp4", "mxfp8"):
        with pytest.raises(ArgumentError, match="global_scale"):
            reference.quantize(x, name, 2.0)
    with pytest.raises(ArgumentError, match=r"expected one number or \(2,\)"):
        reference.quantize(x, "nvfp4", torch.ones(3))


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 5),
    k=st.integers(1, 70),
    name=st.sampled_from(FORMATS),
    layout=st.sampled_from(scale_factors.LAYOUTS),
    data=st.data(),
)
def test_any_matrix(m: int, k: int, name: str, layout: str, data: st.DataObject) -> None:
    floats = st.floats(width=32) | st.sampled_from([0.0, -0.0, 6.0, 448.0, 0.25, -5.0])
    pool = data.draw(st.lists(floats, min_size=1, max_size=40))
    values = list(itertools.islice(itertools.cycle(pool), m * k))
    gs = data.draw(st.floats(2.0**-60, 2.0**60, width=32)) if name == "nvfp4" else None
    check_against_brute_force(torch.tensor(values).reshape(m, k), name, gs, layout)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_holds_comes_back_exactly(name: str) -> None:
    """Every element code under every finite scale whose block has an element of the largest size."""
    kind = reference.FORMATS[name]
    table = TABLES[kind.element]
    elements = [*table, *(-value for value in table)]
    elements += [0.0] * (-len(elements) % (kind.block - 1))
    rows = torch.tensor(elements).reshape(-1, kind.block - 1)
    rows = torch.cat((torch.full((len(rows), 1), kind.max), rows), dim=1)
    codes = range(8, 127) if kind.scale == "e4m3" else range(20, 230)  # within float32's normal numbers
    decode = reference.decode_e4m3 if kind.scale == "e4m3" else reference.decode_ue8m0
    scales = decode(torch.tensor(list(codes), dtype=torch.uint8)).float()
    x = (rows[None] * scales[:, None, None]).flatten(0, 1)
    data, stored = reference.quantize(x, name)
    assert torch.equal(reference.dequantize(data, stored, name), x.double())
    assert torch.equal(reference.dequantize(data, stored, name, dtype=torch.float32), x)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_batches_and_carrier_dtypes(name: str, layout: str) -> None:
    x = matrix((2, 3, 33, 80))
    data, scales = reference.quantize(x, name, layout=layout)
    back = reference.dequantize(data, scales, name, layout=layout)
    assert back.shape == x.shape
    for i, j in itertools.product(range(2), range(3)):
        one, of_one = reference.quantize(x[i, j], name, layout=layout)
        assert same(one, data[i, j])
        assert same(of_one, scales[i, j])
    for data_dtype, scale_dtype in itertools.product(
        (torch.uint8, torch.float4_e2m1fn_x2, torch.float8_e4m3fn), (torch.uint8, torch.float8_e4m3fn)
    ):
        again = reference.dequantize(data.view(data_dtype), scales.view(scale_dtype), name, layout=layout)
        assert torch.equal(again, back)
    assert torch.equal(reference.dequantize(data, scales.flatten(-2), name, layout=layout), back)


def test_odd_k_counts_its_own_elements() -> None:
    x = matrix((4, 37))
    data, scales = reference.quantize(x, "nvfp4")
    assert data.shape == (4, 19)
    assert int((data[:, -1] >> 4).max()) == 0
    back = reference.dequantize(data, scales, "nvfp4", k=37)
    wide = torch.zeros(4, 48)
    wide[:, :37] = x
    assert torch.equal(back, reference.dequantize(*reference.quantize(wide, "nvfp4"), "nvfp4")[:, :37])
    with pytest.raises(ArgumentError, match="k: 36, expected"):
        reference.dequantize(data, scales, "nvfp4", k=36)


# The product


PAIRS = [
    *((name, name) for name in FORMATS),
    ("mxfp8", "mxfp4"),
    ("mxfp4", "mxfp8"),
    ("mxfp8_e5m2", "mxfp4"),
]


def operands(
    m: int, n: int, k: int, pair: tuple[str, str], layout: str = "128x4"
) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(m + n + k)
    a, b = (torch.randn(rows, k, generator=generator) for rows in (m, n))
    a_data, a_scales = reference.quantize(a * 3, pair[0], layout=layout)
    b_data, b_scales = reference.quantize(b, pair[1], layout=layout)
    return a_data, b_data.mT, a_scales, b_scales


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_product_is_the_sum_of_exact_fractions(pair: tuple[str, str], layout: str) -> None:
    m, n, k = 3, 5, 80
    a, b, a_scales, b_scales = operands(m, n, k, pair, layout)
    c = torch.randn(m, n).bfloat16()
    actual = reference.product(
        a, b, a_scales, b_scales, pair[0], format_b=pair[1], alpha=0.5, beta=-2.0, c=c, layout=layout
    )
    sizes = reference.magnitude(
        a, b, a_scales, b_scales, pair[0], format_b=pair[1], alpha=-0.5, beta=-2.0, c=c, layout=layout
    )
    blocks = [reference.FORMATS[name].block for name in pair]
    codes = [codes_of(data, name, k) for data, name in zip((a, b.mT.contiguous()), pair, strict=True)]

    def value(side: int, scales: torch.Tensor, row: int, i: int) -> Fraction:
        kind = reference.FORMATS[pair[side]]
        table, code = TABLES[kind.element], codes[side][row][i]
        at = scale_factors.index(row, i // blocks[side], k, blocks[side], layout)
        scale = scales.view(torch.uint8).flatten()[at].item()
        size = Fraction(table[code % SIGN[kind.element]]) * (-1 if code >= SIGN[kind.element] else 1)
        return size * (Fraction(E4M3[scale]) if kind.scale == "e4m3" else Fraction(2) ** (scale - 127))

    for i, j in itertools.product(range(m), range(n)):
        terms = [value(0, a_scales, i, t) * value(1, b_scales, j, t) for t in range(k)]
        other = Fraction(float(c[i, j]))
        exact = sum(terms) / 2 - 2 * other
        size = sum(map(abs, terms)) / 2 + 2 * abs(other)
        assert abs(Fraction(float(actual[i, j])) - exact) <= k * Fraction(2) ** -53 * size
        assert abs(Fraction(float(sizes[i, j])) - size) <= k * Fraction(2) ** -53 * size


def test_product_of_batches_and_shared_b() -> None:
    a, a_scales = reference.quantize(matrix((2, 7, 64)), "nvfp4")
    b, b_scales = reference.quantize(matrix((2, 9, 64), seed=5), "nvfp4")
    actual = reference.product(a, b.mT, a_scales, b_scales, "nvfp4")
    shared = reference.product(a, b[1].mT, a_scales, b_scales[1], "nvfp4")
    for i in range(2):
        one = reference.product(a[i], b[i].mT, a_scales[i], b_scales[i], "nvfp4")
        assert torch.equal(actual[i], one)
    assert torch.equal(shared[1], actual[1])
    with pytest.raises(ArgumentError, match="b: batch"):
        reference.product(a, b[:1].mT, a_scales, b_scales[:1], "nvfp4")


def test_alpha_undoes_the_global_scales() -> None:
    x, y = torch.randn(32, 256), torch.randn(48, 256)
    gs = [reference.nvfp4_global_scale(value) for value in (x, y)]
    a, a_scales = reference.quantize(x, "nvfp4", gs[0])
    b, b_scales = reference.quantize(y, "nvfp4", gs[1])
    actual = reference.product(a, b.mT, a_scales, b_scales, "nvfp4", alpha=1 / (gs[0] * gs[1]))
    left = reference.dequantize(a, a_scales, "nvfp4", global_scale=gs[0])
    right = reference.dequantize(b, b_scales, "nvfp4", global_scale=gs[1])
    torch.testing.assert_close(actual, left @ right.T, rtol=1e-6, atol=1e-6)
    exact = x.double() @ y.double().T
    assert float(torch.nn.functional.cosine_similarity(actual.flatten(), exact.flatten(), dim=0)) > 0.98


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("a_scales", {"a_scales": lambda s: s[:31]}),
        ("b_scales", {"b_scales": lambda s: s.flatten()[:-1]}),
        ("a_scales", {"a_scales": lambda s: s.float()}),
        ("b", {"b": lambda b: b[:-8]}),
        ("b", {"b": lambda b: b[0]}),
        ("a", {"a": lambda a: a.float()}),
        ("format_a", {"format_a": lambda f: "fp4"}),
        ("alpha", {"alpha": lambda _: torch.ones(2)}),
        ("c", {"beta": lambda _: 1.0}),
    ],
)
def test_wrong_operands_are_named(argument: str, change: dict[str, object]) -> None:
    a, b, a_scales, b_scales = operands(31, 40, 256, ("nvfp4", "nvfp4"))
    arguments = {"a": a, "b": b, "a_scales": a_scales, "b_scales": b_scales, "format_a": "nvfp4"}
    reference.product(**arguments)
    for name, make in change.items():
        arguments[name] = make(arguments.get(name))  # type: ignore[operator]
    if "b" in change and argument == "b" and arguments["b"].ndim == 2:
        arguments["b_scales"] = reference.quantize(torch.ones(40, 240), "nvfp4")[1]
    with pytest.raises(ArgumentError) as e:
        reference.product(**arguments)
    assert e.value.argument == argument


# Comparing


@pytest.fixture(scope="module")
def multiplied() -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
    made = operands(130, 144, 512, ("nvfp4", "nvfp4"))
    return reference.product(*made, "nvfp4"), reference.magnitude(*made, "nvfp4"), made


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_32_bit_product_passes(name: str, dtype: torch.dtype) -> None:
    a, b, a_scales, b_scales = made = operands(130, 144, 512, (name, name))
    left = reference.dequantize(a, a_scales, name, dtype=torch.float32)
    right = reference.dequantize(b.mT, b_scales, name, dtype=torch.float32)
    d = (left @ right.T).to(dtype)
    exact, sizes = reference.product(*made, name), reference.magnitude(*made, name)
    result = reference.compare(d, exact, sizes, slack=reference.accumulation_slack(512))
    assert result.passes(), result
    assert result.cosine > 0.99999
    if dtype != torch.float32:  # whose products of FP4 are exact here
        assert result.worst > 0.3, "the bound is idly wide"


def wrong_scale_of_one_block(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
    a, b, a_scales, b_scales = made
    spoilt = a_scales.view(torch.uint8).clone()
    spoilt.view(-1)[scale_factors.index(7, 3, 512, 16)] += 2
    return reference.product(a, b, spoilt, b_scales, "nvfp4")


def last_k_block_missing(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
    a, b, a_scales, b_scales = made
    a = a.clone()
    a[:, -8:] = 0
    return reference.product(a, b, a_scales, b_scales, "nvfp4")


def scales_swapped(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
    a, b, a_scales, b_scales = made  # 130 and 144 rows take the same padded bytes
    return reference.product(a, b, b_scales, a_scales, "nvfp4")


def scales_of_another_layout(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
    a, b, a_scales, b_scales = made
    plain = scale_factors.unswizzle(a_scales.view(torch.uint8), 130, 512, 16)
    linear = torch.zeros_like(a_scales.view(torch.uint8))
    linear.view(-1)[: plain.numel()] = plain.flatten()
    return reference.product(a, b, linear, b_scales, "nvfp4")


def halves_swapped(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
    a, b, a_scales, b_scales = made
    return reference.product((a << 4) | (a >> 4), b, a_scales, b_scales, "nvfp4")


@pytest.mark.parametrize(
    "fault",
    [
        wrong_scale_of_one_block,
        last_k_block_missing,
        scales_swapped,
        scales_of_another_layout,
        halves_swapped,
    ],
)
def test_faults_of_operands_are_caught(multiplied: object, fault: object) -> None:
    exact, sizes, made = multiplied  # type: ignore[misc]
    d = fault(made).bfloat16()  # type: ignore[operator]
    result = reference.compare(d, exact, sizes)
    assert not result.passes(), result
    assert result.worst > 2


@pytest.mark.parametrize("alpha", [1.02, 0.98, 2.0, 0.5, -1.0])
def test_a_wrong_alpha_is_caught(multiplied: object, alpha: float) -> None:
    exact, sizes, _ = multiplied  # type: ignore[misc]
    result = reference.compare((exact * alpha).bfloat16(), exact, sizes)
    assert abs(result.cosine) > 0.9999  # which is why a cosine is not enough
    assert not result.passes()
    assert not result.passes(norm=9.0)
    assert math.isclose(result.norm_ratio, abs(alpha), rel_tol=1e-3)


@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf, 0.0, "neighbour", "sign"])
def test_one_wrong_element_is_caught_and_named(multiplied: object, fault: object) -> None:
    exact, sizes, _ = multiplied  # type: ignore[misc]
    d = exact.bfloat16()
    at = (3, 9)
    d[at] = {"neighbour": d[4, 9], "sign": -d[at]}.get(fault, fault)
    result = reference.compare(d, exact, sizes)
    assert result.where == at
    assert result.worst > 1
    assert not result.passes()
    assert "[3, 9]" in str(result)


def test_bounds_are_those_of_rounding() -> None:
    exact = torch.tensor([[1.0, -3.0, 0.0, 1e-9, 60000.0]]).double()
    zero = torch.zeros_like(exact)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        points = torch.logspace(-12, 4.7, 5000, dtype=torch.float64)[None]
        errors = (points.float().to(dtype).double() - points).abs()  # 2^-25 more, from float32
        bounds = reference.error_bounds(points, points, dtype, slack=2.0**-24)
        assert bool((errors <= bounds).all())
        assert float((errors / bounds).max()) > (0.4 if dtype == torch.float32 else 0.9)
        assert bool((reference.error_bounds(exact, zero, dtype) > 0).all())
    slack = reference.error_bounds(zero, torch.full_like(exact, 8.0), torch.float32, slack=0.125)
    torch.testing.assert_close(slack, torch.ones_like(slack), rtol=1e-6, atol=0)
    with pytest.raises(ArgumentError, match="dtype"):
        reference.error_bounds(exact, zero, torch.int8)
    with pytest.raises(ArgumentError, match="dtype"):
        reference.error_bounds(exact, zero, "fp5")


def test_infinities_and_nans_must_be_where_they_belong() -> None:
    exact = torch.tensor([[math.nan, math.inf, 70000.0, 1.0]]).double()
    sizes = exact.abs()
    right = torch.tensor([[math.nan, math.inf, math.inf, 1.0]]).half()
    assert reference.compare(right, exact, sizes).passes()
    for i, wrong in enumerate([1.0, -math.inf, -math.inf, math.inf]):
        d = right.clone()
        d[0, i] = wrong
        result = reference.compare(d, exact, sizes)
        assert result.worst == math.inf
        assert result.where == (0, i)


def test_zero_and_empty_and_huge() -> None:
    zero = torch.zeros(2, 3)
    assert reference.compare(zero, zero.double(), zero.double()).passes()
    assert not reference.compare(zero + 1e-3, zero.double(), zero.double()).passes()
    ones = torch.ones(2, 3)
    result = reference.compare(zero, ones.double(), ones.double())
    assert (result.cosine, result.norm_ratio) == (0.0, 0.0)
    empty = torch.zeros(0, 3)
    assert reference.compare(empty, empty.double(), empty.double()).passes()
    huge = torch.full((2, 2), 1e300, dtype=torch.float64)
    assert reference.compare(huge, huge, huge, torch.float32).passes()
    with pytest.raises(ArgumentError, match="exact"):
        reference.compare(zero, ones[:1].double(), ones.double())


@pytest.mark.parametrize("name", ["nvfp4", "mxfp8", "mxfp4", "mxfp8_e5m2"])
def test_quantised_results_are_within_their_bounds_and_not_far(name: str) -> None:
    x = matrix((64, 144)) * 5
    gs = float(reference.nvfp4_global_scale(x)) if name == "nvfp4" else None
    back = reference.dequantize(*reference.quantize(x, name, gs), name, global_scale=gs)
    sizes = x.double().abs()
    result = reference.compare(back, x.double(), sizes, name, slack=0.0, global_scale=gs or 1.0)
    assert result.passes(cosine=0.99), result
    assert result.worst > 0.3
    assert not reference.compare(back * 2, x.double(), sizes, name, global_scale=gs or 1.0).passes()
    shifted = back.roll(1, dims=1)
    assert not reference.compare(shifted, x.double(), sizes, name, global_scale=gs or 1.0).passes()
