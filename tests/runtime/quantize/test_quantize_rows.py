"""`quantize` of some rows alone, of rows in another order, and with an activation or a norm before it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from quantize_comparison import check_read_back
from quantize_operands import BYTE_FORMATS, FP8, POISON, as_bytes, as_type, data_of, dequantizer, quantizer

import tilewright
from tilewright import reference, row_shuffle, scale_factors
from tilewright.context import Context
from tilewright.contract.tensors import same
from tilewright.errors import ArgumentError


@pytest.mark.parametrize("name", BYTE_FORMATS)
def test_rows_beyond_the_valid_ones_are_not_written(hopper: Context, name: str) -> None:
    x = data_of((5, 130, 96))
    valid = torch.tensor([0, 129, 130, 7, -3], dtype=torch.int32)
    width = 48 if name in ("nvfp4", "mxfp4") else 96
    for layout in scale_factors.LAYOUTS:
        expected, wanted_scales = reference.quantize(x, name, None, layout, rows_valid=valid.clamp(min=0))
        out = torch.full((5, 130, width), POISON, dtype=torch.uint8)
        data, scales = quantizer(name)(x, layout=layout, rows_valid=valid, out=out)
        assert data is out
        assert same(scales, wanted_scales)
        rows = reference.valid_rows(valid, 130)
        assert same(out[rows], as_bytes(expected)[rows])
        assert bool((out[~rows] == POISON).all())
        result = torch.full((5, 130, 96), 7.0, dtype=torch.bfloat16)
        dequantizer(name)(as_type(out, name), scales, layout=layout, rows_valid=valid, out=result)
        assert bool((result[~rows] == 7).all())
        exact = reference.dequantize(expected, wanted_scales, name, layout=layout)
        check_read_back(result[rows], exact[rows], f"{name} {layout}", rounded_twice=False)


@pytest.mark.parametrize(("block", "scale_type", "layout"), FP8)
def test_masked_rows_of_fp8_blockwise(
    hopper: Context, block: tuple[int, int], scale_type: str, layout: str
) -> None:
    x = data_of((4, 259, 144))
    valid = torch.tensor([0, 129, 259, 1], dtype=torch.int32)
    rows = reference.valid_rows(valid, 259)
    expected = reference.quantize_fp8_blockwise(x, block, scale_type, layout, rows_valid=valid)
    out = torch.full(x.shape, POISON, dtype=torch.uint8)
    _, scales = tilewright.quantize_fp8_blockwise(
        x, block, scale_type=scale_type, scale_layout=layout, rows_valid=valid, out=out
    )
    assert same(scales, expected[1])
    assert same(out[rows], as_bytes(expected[0])[rows])
    assert bool((out[~rows] == POISON).all())


def near(found: Any, exact: Any, name: str, **options: Any) -> None:
    """What was quantised from a value near the exact one is within the format's own error of that."""
    compared = reference.compare(
        reference.dequantize(*found, name, **options),
        exact.double(),
        exact.double().abs(),
        name,
        slack=2.0**-18,
    )
    assert compared.passes(cosine=0.98), str(compared)


def test_silu_mul_is_quantised_as_the_reference_does(hopper: Context) -> None:
    x = torch.randn(70, 192).bfloat16() * 3
    fused = reference.silu_mul(x)
    data, scales = tilewright.quantize_nvfp4(x, activation="silu_mul")
    assert data.shape == (70, 48)
    near((data, scales), fused, "nvfp4")
    data, scales = tilewright.quantize_fp8_blockwise(x, activation="silu_mul")
    assert data.shape == (70, 96)
    back = reference.dequantize_fp8_blockwise(data, scales)
    assert bool(((back - fused).abs() <= fused.abs() * 2.0**-3.99 + scales.double() * 2.0**-10).all())


def test_a_normalised_matrix_is_quantised_as_the_reference_does(hopper: Context) -> None:
    x, weight = torch.randn(70, 96).bfloat16() * 3, torch.randn(96).bfloat16()
    for eps in (1e-6, 0.5):
        actual = tilewright.quantize_nvfp4(x, 2.0, rms_weight=weight, eps=eps)
        near((actual[0], actual[1]), reference.rms_norm(x, weight, eps), "nvfp4", global_scale=2.0)


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_shuffled_rows_lie_as_the_reference_shuffles_them(hopper: Context, name: str) -> None:
    x = data_of((2, 96, 64))
    for layout in scale_factors.LAYOUTS:
        data, scales = quantizer(name)(x, layout=layout, shuffle=True)
        plain, plain_scales = reference.quantize(x, name, layout="linear")
        assert same(data, row_shuffle.shuffle_rows(as_bytes(plain)).view(data.dtype))
        shuffled = row_shuffle.shuffle_rows(as_bytes(plain_scales))
        assert torch.equal(as_bytes(scales), scale_factors.swizzle(shuffled, layout))
    if name == "nvfp4":
        per_row = torch.rand(2, 96) + 0.5
        data, scales = tilewright.quantize_nvfp4(x, per_row, shuffle=True)
        plain, plain_scales = reference.quantize(x, name, per_row, "linear")
        assert same(data, row_shuffle.shuffle_rows(plain))
    with pytest.raises(ArgumentError, match="shuffle: 33 rows"):
        quantizer(name)(x[0, :33], shuffle=True)
    with pytest.raises(ArgumentError, match="shuffle"):
        quantizer(name)(x, shuffle=True, rows_valid=torch.ones(2, dtype=torch.int32))
