"""What compares results of scaled products on a GPU rejects what a wrong kernel would write: on the host."""

from __future__ import annotations

import math
from collections.abc import Callable

import blockscaled_reference
import pytest
import torch
from scaled_products import Scaled, by_blocks, by_columns, by_rows, compare, exact

from tilewright import scale_factors

M, N, K = 192, 256, 400  # k is no multiple of a block


def matrix(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


@pytest.fixture(scope="module")
def wanted() -> torch.Tensor:
    return exact(by_rows(matrix(M, K, seed=1))) @ exact(by_blocks(matrix(1, N, K, seed=2)))[0].mT


@pytest.mark.parametrize(
    ("quantize", "shape", "rows", "columns"),
    [(by_rows, (M, K), 1, 128), (by_blocks, (2, N, K), 128, 128), (by_columns, (256, 3, 40), 128, 1)],
)
def test_exact_values_are_elements_times_the_scale_of_their_block(
    quantize: Callable[[torch.Tensor], Scaled], shape: tuple[int, ...], rows: int, columns: int
) -> None:
    x = matrix(*shape, seed=3)
    data, scales = quantize(x)
    values = exact((data, scales))
    torch.testing.assert_close(values, x.double(), rtol=2.0**-4, atol=1e-2)
    for place in ((0,) * len(shape), tuple(extent - 1 for extent in shape)):
        block = list(place)
        first, second = (0, 1) if quantize is by_columns else (-2, -1)
        block[first], block[second] = place[first] // rows, place[second] // columns
        assert float(values[place]) == float(data[place].double() * scales[tuple(block)].double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("error", [0.0, 5e-4])
def test_right_results_pass(wanted: torch.Tensor, dtype: torch.dtype, error: float) -> None:
    """Sums pass that lose as many bits as FP8's tensor cores do."""
    noise = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(4)).double()
    rms = float(wanted.square().mean().sqrt())
    compare((wanted + error * rms * noise).to(dtype), wanted, K)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_wrong_results_fail(wanted: torch.Tensor, dtype: torch.dtype) -> None:
    right, generator = wanted.to(dtype), torch.Generator().manual_seed(5)
    chosen = torch.rand(wanted.shape, generator=generator) < 1e-3
    assert 20 < int(chosen.sum()) < 100
    others = right.flatten()[torch.randperm(right.numel(), generator=generator)].view_as(right)

    def with_one(value: float) -> torch.Tensor:
        changed = right.clone()
        changed[40, 7] = value
        return changed

    wrong = {
        "0.1 % are other elements": torch.where(chosen, others, right),
        "one element off": with_one(float(right[40, 7]) + 0.2 * float(wanted.square().mean().sqrt())),
        "one element NaN": with_one(math.nan),
        "a row not written": torch.cat([right[:-1], torch.full_like(right[:1], math.nan)]),
        "two rows exchanged": right[[1, 0, *range(2, M)]],
        "a scale 1 % off": (1.01 * wanted).to(dtype),
        "before quantising": (matrix(M, K, seed=1).double() @ matrix(1, N, K, seed=2)[0].double().mT).to(
            dtype
        ),
    }
    assert [what for what, actual in wrong.items() if passes(actual, wanted)] == []


def passes(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    try:
        compare(found, wanted, K)
    except AssertionError:
        return False
    return True


def test_nan_is_excused_where_padding_reaches_alone() -> None:
    plain = torch.arange(12.0).view(3, 4)
    actual = plain.clone()
    actual[1, :], actual[:, 2] = math.nan, math.nan
    assert torch.equal(blockscaled_reference.excuse_nan(actual, plain, [1], [2]), plain)
    assert bool(
        blockscaled_reference.excuse_nan(actual, plain, [1], [])
        .isnan()[:, 2]
        .equal(torch.tensor([True, False, True]))
    )
    actual[0, 0] = math.nan
    assert bool(blockscaled_reference.excuse_nan(actual, plain, [1], [2]).isnan()[0, 0])
    actual[0, 0], actual[1, 1] = 0.0, 7.0  # a number is no NaN
    assert float(blockscaled_reference.excuse_nan(actual, plain, [1], [2])[1, 1]) == 7.0


@pytest.mark.parametrize("rows", [None, [5, 32]])
def test_padding_columns_are_filled_in_the_rows_that_are_named(rows: list[int] | None) -> None:
    count, k, block, byte = 33, 328, 16, 0x7F
    plain = torch.full((count, scale_factors.columns(k, block)), 0x38, dtype=torch.uint8)
    wide = scale_factors.padded_shape(count, k, block)
    scales = torch.zeros(wide, dtype=torch.uint8)
    scales[:count, : plain.shape[1]] = plain
    filled = blockscaled_reference.fill_padding(
        scale_factors.swizzle(scales), (count, k), block, "columns", byte, rows
    )
    expected = scales.clone()
    expected[range(count) if rows is None else rows, plain.shape[1] :] = byte
    assert torch.equal(filled.view(-1), scale_factors.swizzle(expected).view(-1))
