"""The comparisons of the GPU's quantising tests reject what a wrong kernel would write: on the host, on
results of the reference that are made wrong."""

from __future__ import annotations

import math

import pytest
import quantize_comparison as comparison
import quantize_reference as of
import torch
from quantize_cases import SHAPE, bytes_of, case_of, random, wanted_of

from tilewright import reference

FUSED = ("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2", "fp8_1x128")
NAN_CODE = {"mxfp8": 0x7F, "mxfp8_e5m2": 0x7F, "fp8_1x128": 0x7F}
ONE_BYTE = tuple(NAN_CODE)


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
