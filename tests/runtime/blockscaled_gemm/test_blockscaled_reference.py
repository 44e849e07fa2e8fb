"""The reference of block-scaled arithmetic, against brute force in Python's own floats and fractions."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from block_formats import (
    E4M3,
    FORMATS,
    SHAPES,
    TABLES,
    check_against_brute_force,
    f32,
    matrix,
    nearest,
    neighbours,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import reference, scale_factors
from tilewright.errors import ArgumentError


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_quantize_is_its_definition(m: int, k: int, name: str) -> None:
    for seed, layout in enumerate(scale_factors.LAYOUTS):
        x = matrix((m, k), seed, (torch.float32, torch.bfloat16, torch.float16)[seed])
        gs = float(reference.nvfp4_global_scale(x)) if name == "nvfp4" else None
        check_against_brute_force(x, name, gs, layout)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8_input_is_quantised_as_its_definition_says(dtype: torch.dtype) -> None:
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


def test_the_global_scale_brings_the_largest_magnitude_to_2688() -> None:
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


@settings(max_examples=60)
@given(
    m=st.integers(1, 5),
    k=st.integers(1, 70),
    name=st.sampled_from(FORMATS),
    layout=st.sampled_from(scale_factors.LAYOUTS),
    data=st.data(),
)
def test_random_matrices_are_quantised_as_brute_force_does(
    m: int, k: int, name: str, layout: str, data: st.DataObject
) -> None:
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
        matrix_data, matrix_scales = reference.quantize(x[i, j], name, layout=layout)
        assert same(matrix_data, data[i, j])
        assert same(matrix_scales, scales[i, j])
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
