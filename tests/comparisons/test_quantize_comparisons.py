"""The comparisons of the GPU's quantising tests reject what a wrong kernel would write: on the host, on
results of the reference that are made wrong."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import pytest
import quantize_comparison as comparison
import quantize_reference as of
import torch

from tilewright import reference

FUSED = ("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2", "fp8_1x128")
NAN_CODE = {"mxfp8": 0x7F, "mxfp8_e5m2": 0x7F, "fp8_1x128": 0x7F}
ONE_BYTE = tuple(NAN_CODE)


SHAPE = (33, 512)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def spread(*shape: int) -> torch.Tensor:
    """Numbers of which formats make all their codes."""
    exponents = torch.randint(-34, 3, shape, generator=torch.Generator().manual_seed(2))
    return torch.ldexp(random(*shape), exponents)


def case_of(name: str, x: torch.Tensor | None = None) -> of.Case:
    scale = 150.0 if name == "nvfp4" else None
    return of.Case(name, (spread(*SHAPE) if x is None else x).bfloat16(), of.layouts_of(name)[0], scale)


@functools.cache
def wanted_of(name: str) -> comparison.Stored:
    return case_of(name).wanted()


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, as bytes where its elements are such."""
    return of.as_bytes(tensor.clone())


def shares(
    name: str, data: torch.Tensor | None = None, scales: torch.Tensor | None = None
) -> tuple[float, float]:
    """What `shares_off` says of the reference's results with other data, or other scales."""
    case, expected = case_of(name), wanted_of(name)
    actual = (
        expected[0] if data is None else data.view(expected[0].dtype),
        expected[1] if scales is None else scales.view(expected[1].dtype),
    )
    return comparison.shares_off(case, actual, expected)


def positive(data: torch.Tensor, name: str) -> torch.Tensor:
    """Which bytes of data hold a positive element, or two."""
    if name in ("nvfp4", "mxfp4"):
        return ((data & 8) == 0) & (data & 7 > 0) & ((data & 0x80) == 0)
    return (data & 0x80 == 0) & (data > 0)


@pytest.mark.parametrize("name", FUSED)
def test_the_reference_passes(name: str) -> None:
    assert shares(name) == (0.0, 0.0)


@pytest.mark.parametrize("nan", [0x7F, 0xFF])
@pytest.mark.parametrize("name", ONE_BYTE)
def test_nan_for_every_positive_element_fails(name: str, nan: int) -> None:
    """0xFF is NaN in E4M3: about as far from a small positive element as the zeros are from each other."""
    data = bytes_of(wanted_of(name)[0])
    data[positive(data, name)] = nan
    with pytest.raises(AssertionError, match="NaN or infinities"):
        shares(name, data)


@pytest.mark.parametrize("name", ONE_BYTE)
def test_one_nan_fails(name: str) -> None:
    data = bytes_of(wanted_of(name)[0])
    data[17, 130] = 0xFF
    with pytest.raises(AssertionError, match="1 NaN or infinities"):
        shares(name, data)


def test_an_infinity_of_e5m2_fails() -> None:
    """Beside the largest number by its code."""
    data = bytes_of(wanted_of("mxfp8_e5m2")[0])
    data.view(-1)[int(data.view(-1).to(torch.int16).fmod(128).argmax())] = 0x7C
    with pytest.raises(AssertionError, match="NaN or infinities"):
        shares("mxfp8_e5m2", data)


@pytest.mark.parametrize("name", FUSED)
def test_zeros_of_another_sign_pass(name: str) -> None:
    """The sign counts for every other number."""
    case = case_of(name, torch.where(random(*SHAPE, seed=1) < 0, 0.0, random(*SHAPE)))
    expected = case.wanted()
    data = bytes_of(expected[0])
    if name in ("nvfp4", "mxfp4"):
        data ^= torch.where(data & 7 == 0, 8, 0).to(torch.uint8)
        data ^= torch.where(data & 0x70 == 0, 0x80, 0).to(torch.uint8)
    else:
        data ^= torch.where(data & 0x7F == 0, 0x80, 0).to(torch.uint8)
    assert not torch.equal(data, of.as_bytes(expected[0]))
    assert comparison.shares_off(case, (data.view(expected[0].dtype), expected[1]), expected) == (0.0, 0.0)


@pytest.mark.parametrize("name", FUSED)
def test_small_elements_of_another_sign_fail(name: str) -> None:
    """Their norm is nothing."""
    data = bytes_of(wanted_of(name)[0])
    at = tuple((data & (0x7F if name in ONE_BYTE else 0x77) == 1).nonzero()[0].tolist())
    data[at] ^= 0x80 if name in ONE_BYTE else 8
    with pytest.raises(AssertionError, match="more than a step away"):
        shares(name, data)


@pytest.mark.parametrize("name", FUSED)
def test_elements_a_step_away_are_counted(name: str) -> None:
    data = bytes_of(wanted_of(name)[0])
    chosen = torch.zeros_like(data, dtype=torch.bool)
    chosen[::13, ::17] = True
    chosen &= positive(data, name) & (
        data & (0x7F if name in ONE_BYTE else 7) < (0x70 if name in ONE_BYTE else 6)
    )
    data[chosen] += 1
    elements, scales = shares(name, data)
    assert elements == pytest.approx(int(chosen.sum()) / math.prod(SHAPE))
    assert scales == 0


@pytest.mark.parametrize("name", FUSED)
def test_elements_two_steps_away_fail(name: str) -> None:
    data = bytes_of(wanted_of(name)[0])
    chosen = positive(data, name) & (data & (0x7F if name in ONE_BYTE else 7) < 5)
    at = tuple(chosen.nonzero()[0].tolist())
    data[at] += 2
    with pytest.raises(AssertionError, match="an element is more than a step away"):
        shares(name, data)


@pytest.mark.parametrize("name", FUSED)
def test_memory_that_was_not_written_fails(name: str) -> None:
    data = bytes_of(wanted_of(name)[0])
    data[10] = of.POISON
    with pytest.raises(AssertionError):
        shares(name, data)


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_nan_in_a_scale_fails_beside_the_largest_number(name: str) -> None:
    """Their codes are neighbours."""
    nan = 0x7F if name == "nvfp4" else 0xFF
    case, expected = case_of(name), wanted_of(name)
    largest, actual = bytes_of(expected[1]), bytes_of(expected[1])
    largest.view(-1)[0], actual.view(-1)[0] = nan - 1, nan
    with pytest.raises(AssertionError):
        comparison.shares_off(
            case,
            (expected[0], actual.view(expected[1].dtype)),
            (expected[0], largest.view(expected[1].dtype)),
        )
    code = "e4m3" if name == "nvfp4" else "ue8m0"
    assert int(comparison.steps(actual, largest, code).max()) > comparison.LARGEST_STEP


@pytest.mark.parametrize("change", [2, -2])
@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_a_scale_two_steps_away_fails(name: str, change: int) -> None:
    scales = bytes_of(wanted_of(name)[1])
    scales.view(-1)[0] += change
    with pytest.raises(AssertionError):
        shares(name, scales=scales)


def test_scales_in_float32_of_another_value_fail() -> None:
    case, (data, scales) = case_of("fp8_1x128"), wanted_of("fp8_1x128")
    for wrong in (scales * (1 + 2.0**-16), torch.full_like(scales, math.nan), scales * 0):
        with pytest.raises(AssertionError):
            comparison.shares_off(case, (data, wrong), (data, scales))
    assert comparison.shares_off(case, (data, scales * (1 + 2.0**-20)), (data, scales)) == (0.0, 0.0)


def test_every_pair_of_codes() -> None:
    """By how far they are apart, said without arithmetic on codes."""
    for code, values in {
        "e4m3": reference.decode_e4m3(torch.arange(256, dtype=torch.uint8)),
        "e5m2": reference.decode_e5m2(torch.arange(256, dtype=torch.uint8)),
    }.items():
        a, b = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
        x, y = values[a], values[b]
        actual = comparison.steps(a.to(torch.uint8), b.to(torch.uint8), code)
        same = (x == y) | (x.isnan() & y.isnan())
        assert torch.equal(actual == 0, same)
        finite = x.isfinite() & y.isfinite()
        assert bool((actual[~finite & ~same] > comparison.LARGEST_STEP).all())
        apart = actual == 1
        between = (values[None, None, :] > torch.minimum(x, y)[apart][:, None]) & (
            values[None, None, :] < torch.maximum(x, y)[apart][:, None]
        )
        assert not bool(between.any()), "a number lies between two that are a step apart"
        assert bool((torch.sign(x[apart]) * torch.sign(y[apart]) >= 0).all())


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
