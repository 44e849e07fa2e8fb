"""The comparison of a result with its reference: which faults it finds, and what it allows."""

from __future__ import annotations

import math

import pytest
import torch
from block_formats import FORMATS, matrix, operands

from tilewright import reference, scale_factors
from tilewright.errors import ArgumentError

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
