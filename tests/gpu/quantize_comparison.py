"""Comparisons of the quantising tests: to the bit, within a step of the format, and of what is read back.

A comparison excuses nothing that a wrong kernel could write: NaN is where the reference has NaN, and nowhere
else, and of signs that of zero alone does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tilewright import reference, scale_factors
from tilewright.families.quantize.problem import BLOCK

if TYPE_CHECKING:
    from quantize_reference import Case

ELEMENTS = {"nvfp4": "e2m1", "mxfp4": "e2m1", "mxfp8_e5m2": "e5m2"}  # E4M3 of others
LARGEST_STEP = 1
MOST_LOST = 0.02  # of the norm, by elements and scales that are a step away


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def compare(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    """Bit for bit."""
    assert found.shape == wanted.shape, f"{what}: shape {tuple(found.shape)}, wanted {tuple(wanted.shape)}"
    if found.dtype == torch.float32:
        found, wanted = (x.contiguous().view(torch.int32) for x in (found, wanted))
    differ = found != wanted
    if bool(differ.any()):
        at = tuple(differ.nonzero()[0].tolist())
        first = f"{found[at].item():#x} instead of {wanted[at].item():#x} at {list(at)}"
        raise AssertionError(f"{what}: {int(differ.sum())} of {differ.numel()} differ, first {first}")


def compare_values(found: torch.Tensor, wanted: torch.Tensor, what: str, most: float) -> None:
    """The difference has at most the share `most` of the expected norm; infinities and NaN are the same."""
    value, right = found.double(), wanted.double()
    same = (value == right) | (value.isnan() & right.isnan())
    other = ~same & ~(value.isfinite() & right.isfinite())
    assert not bool(other.any()), f"{what}: {int(other.sum())} NaN or infinities in one, and not in the other"
    error = float(torch.where(same, 0.0, value - right).norm())
    norm = float(torch.where(right.isfinite(), right, 0.0).norm())
    assert error <= most * norm, f"{what}: off by {error:.3e} of {norm:.3e} in norm, {most:.0e} of it may be"


# Codes of sign and magnitude: the sign's bit, the least magnitude that is no finite number, and of NaN.
_CODES = {
    "e2m1": (8, 8, 8),
    "e4m3": (0x80, 0x7F, 0x7F),
    "e5m2": (0x80, 0x7C, 0x7D),
    "ue8m0": (0x100, 0xFF, 0xFF),
}
_APART = 999  # codes that no rounding makes of one another


def steps(found: torch.Tensor, wanted: torch.Tensor, code: str) -> torch.Tensor:
    """By how many codes bytes are apart. The sign counts, but for zero's; NaN is NaN, and an infinity that
    infinity, or they are `_APART`."""
    sign, special, nan = _CODES[code]
    a, b = found.to(torch.int16), wanted.to(torch.int16)
    a_size, b_size = a & (sign - 1), b & (sign - 1)
    same = (a == b) | ((a_size >= nan) & (b_size >= nan)) | ((a_size == 0) & (b_size == 0))
    numbers = (a_size < special) & (b_size < special) & ((a ^ b) & sign == 0)
    return torch.where(same, 0, torch.where(numbers, (a_size - b_size).abs(), _APART))


def _elements(data: torch.Tensor, format: str) -> torch.Tensor:
    """Codes of elements, one to a byte."""
    return reference.unpack_e2m1(data) if ELEMENTS.get(format) == "e2m1" else as_bytes(data)


def _plain_scales(case: Case, scales: torch.Tensor) -> torch.Tensor:
    """Scales that are bytes, [..., m, blocks]."""
    block = BLOCK[case.format][1]
    if case.layout == "packed":
        words = scales.clone(memory_format=torch.contiguous_format).view(torch.uint8)
        return words[..., : -(-case.shape[-1] // block)]
    plain = scale_factors.unswizzle(as_bytes(scales), *case.shape[-2:], block, case.layout)  # type: ignore[arg-type]
    return plain.view(torch.uint8)


Stored = tuple[torch.Tensor, torch.Tensor]  # data and scales


def shares_off(case: Case, found: Stored, wanted: Stored) -> tuple[float, float]:
    """The shares of elements and of scales that are not the wanted ones, in blocks whose scales agree.

    Raises AssertionError where one is more than a step away, where what is no number is another, and where
    what is read back is too far off. For fast arithmetic, and for fusions, whose sums and exponentials are
    rounded otherwise than the reference's.
    """
    compare_values(case.read_back(*found), case.read_back(*wanted), f"{case} read back", MOST_LOST)
    off = steps(_elements(found[0], case.format), _elements(wanted[0], case.format), _code(case.format))
    if found[1].dtype == torch.float32:  # the scale itself is rounded otherwise, in its last places
        mine, right = found[1], wanted[1]
        close = ((mine - right).abs() <= right.abs() * 2.0**-18) | (mine.isnan() & right.isnan())
        assert bool(close.all()), f"{case}: a scale is off by more than a few units in the last place"
        scales_off, same = torch.zeros(1), torch.ones_like(off, dtype=torch.bool)
    else:
        mine, right = (_plain_scales(case, x) for x in (found[1], wanted[1]))
        scales_off = steps(mine, right, "e4m3" if case.format == "nvfp4" else "ue8m0")
        block = BLOCK[case.format][1]
        same = (scales_off == 0).repeat_interleave(block, dim=-1)[..., : case.shape[-1]]
    assert int(scales_off.max()) <= LARGEST_STEP, f"{case}: a scale is more than a step away"
    assert not bool(same.any()) or int(off[same].max()) <= LARGEST_STEP, (
        f"{case}: an element is more than a step away"
    )
    return float((off[same] > 0).double().mean()), float((scales_off > 0).double().mean())


def _code(format: str) -> str:
    return ELEMENTS.get(format, "e4m3")


def check_read_back(found: torch.Tensor, exact: torch.Tensor, what: str, *, rounded_twice: bool) -> None:
    """What dequantising made: the exact value, rounded to FP32 and then to the type.

    With a global scale (`rounded_twice`) the quotient was rounded before, and may be the next number where
    the exact one is next to the middle of two.
    """
    slack = exact.abs() * 2.0**-24 + 2.0**-150 if rounded_twice else torch.zeros_like(exact)
    slack = torch.where(exact.isfinite(), slack, 0.0)
    least, most = ((exact + sign * slack).float().to(found.dtype) for sign in (-1, 1))
    right = ((least <= found) & (found <= most)) | (found.isnan() & exact.isnan())
    if not bool(right.all()):
        at = tuple((~right).nonzero()[0].tolist())
        raise AssertionError(f"{what} read back: {found[at].item()} instead of {exact[at].item()} at {at}")
    compare_values(found, exact.float().to(found.dtype), f"{what} read back", torch.finfo(found.dtype).eps)
