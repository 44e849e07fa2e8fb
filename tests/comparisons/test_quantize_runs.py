"""A run of the GPU's quantising tests sees what was not written, and values that were read back wrong."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import quantize_comparison as comparison
import quantize_reference as of
import torch
from quantize_cases import case_of, random


def poisoned_run(fusion: Callable[[of.Run], None]) -> None:
    """A run whose kernel is `fusion`."""
    case = case_of("mxfp8")
    run = of.Run(case)
    fusion(run)
    run.check_bits()


def write(run: of.Run) -> None:
    of.as_bytes(run.data).copy_(of.as_bytes(run.wanted))
    of.as_bytes(run.scales).copy_(of.as_bytes(run.wanted_scales))


def test_a_run_sees_what_was_not_written_and_what_should_not_be() -> None:
    poisoned_run(write)

    def leaves_a_row(run: of.Run) -> None:
        write(run)
        of.as_bytes(run.data)[32] = of.POISON

    def leaves_scales(run: of.Run) -> None:
        of.as_bytes(run.data).copy_(of.as_bytes(run.wanted))

    def writes_beyond(run: of.Run) -> None:
        write(run)
        of.as_bytes(run.data).as_strided((1,), (1,), run.data.shape[1])[0] = 0

    for wrong in (leaves_a_row, leaves_scales, writes_beyond):
        with pytest.raises(AssertionError):
            poisoned_run(wrong)


def read_back(values: torch.Tensor, dtype: torch.dtype, *, rounded_twice: bool = True) -> None:
    """Checks values that were made of `exact`: zeros, tiny, common and infinite numbers, and NaN."""
    comparison.check_read_back(values.to(dtype), exact(), "a case", rounded_twice=rounded_twice)


def exact() -> torch.Tensor:
    return torch.cat(
        [
            torch.zeros(8),
            random(500),
            random(100) * 2.0**-130,
            random(100) * 2.0**-148,
            torch.tensor([math.inf, -math.inf, math.nan, 1e30, -1e30, 65519.0, 65521.0]),
        ]
    ).double()


@pytest.mark.parametrize("rounded_twice", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_what_was_read_back(dtype: torch.dtype, rounded_twice: bool) -> None:
    right = exact().float().to(dtype)
    read_back(right, dtype, rounded_twice=rounded_twice)
    wrong = {
        "NaN for a zero": (0, math.nan),
        "a number for a zero": (1, 1e-4),
        "the smallest number for a zero": (2, float(torch.finfo(dtype).smallest_normal)),
        "infinite for a number": (20, math.inf),
        "NaN for a number": (21, math.nan),
        "NaN for a tiny number": (520, math.nan),
        "one for a tiny number": (650, 1.0),
        "the largest number for an infinite one": (708, torch.finfo(dtype).max),
        "the other infinity": (708, -math.inf),
        "a number for NaN": (710, 0.0),
        "two numbers on": (30, _next(right[30], 2)),
    }
    for what, (at, value) in wrong.items():
        actual = right.clone()
        actual[at] = value
        with pytest.raises(AssertionError, match="a case read back"):
            pytest.fail(what) if of_same(actual, right) else read_back(
                actual, dtype, rounded_twice=rounded_twice
            )


def of_same(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(((x == y) | (x.isnan() & y.isnan())).all())


def _next(value: torch.Tensor, count: int) -> float:
    """The number so many on, away from zero."""
    kind = torch.int32 if value.dtype == torch.float32 else torch.int16
    return float((value.view(kind) + count).view(value.dtype))


def test_a_quotient_may_be_the_next_number_only_beside_a_middle() -> None:
    middle = torch.tensor([1.0 + 2.0**-8 + 2.0**-23], dtype=torch.float64)  # of two BF16, nearly
    for value in (1.0, 1.0 + 2.0**-7):
        comparison.check_read_back(torch.tensor([value]).bfloat16(), middle, "a case", rounded_twice=True)
    with pytest.raises(AssertionError):
        comparison.check_read_back(torch.tensor([1.0]).bfloat16(), middle, "a case", rounded_twice=False)
    away = torch.tensor([1.0 + 2.0**-9], dtype=torch.float64)
    with pytest.raises(AssertionError):
        comparison.check_read_back(
            torch.tensor([1.0 + 2.0**-7]).bfloat16(), away, "a case", rounded_twice=True
        )


def test_comparing_values_sees_nan_and_infinities() -> None:
    expected = random(64)
    for value in (math.nan, math.inf):
        actual = expected.clone()
        actual[5] = value
        for pair in ((actual, expected), (expected, actual)):
            with pytest.raises(AssertionError, match="1 NaN or infinities"):
                comparison.compare_values(*pair, "values", 1.0)
        comparison.compare_values(actual, actual.clone(), "values", 0.0)
    with pytest.raises(AssertionError, match="off by"):
        comparison.compare_values(expected * 1.03, expected, "values", 0.02)
