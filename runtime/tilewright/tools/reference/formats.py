"""The block-scaled formats, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from tilewright.errors import ArgumentError

Element = Literal["e2m1", "e4m3", "e5m2"]
Scale = Literal["e4m3", "ue8m0"]


@dataclass(frozen=True, slots=True)
class Format:
    """A matrix format whose blocks of `block` elements along k share a scale.

    NVFP4 is NVIDIA's; MXFP4 and MXFP8 are those of the OCP Microscaling (MX) specification 1.0.
    """

    name: str
    element: Element
    bits: int  # of an element; two 4-bit ones share a byte, the even one in its low half
    block: int
    scale: Scale
    max: float  # the largest finite element
    roundoff: float  # the largest relative error of rounding a normal element to nearest
    subnormal_roundoff: float  # the largest absolute error of rounding a subnormal element to nearest

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of data that `quantize` returns: bytes for FP4, else the element's own dtype."""
        return {"e2m1": torch.uint8, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[self.element]

    @property
    def scale_dtype(self) -> torch.dtype:
        """The dtype of scales that `quantize` returns."""
        return {"e4m3": torch.float8_e4m3fn, "ue8m0": torch.float8_e8m0fnu}[self.scale]

    def width(self, k: int) -> int:
        """The bytes of the data of a row of `k` elements. In FP4 an odd row leaves half a byte unused."""
        return -(-k * self.bits // 8)


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("nvfp4", "e2m1", 4, 16, "e4m3", 6.0, 2.0**-2, 2.0**-2),
        Format("mxfp4", "e2m1", 4, 32, "ue8m0", 6.0, 2.0**-2, 2.0**-2),
        Format("mxfp8", "e4m3", 8, 32, "ue8m0", 448.0, 2.0**-4, 2.0**-10),
        Format("mxfp8_e5m2", "e5m2", 8, 32, "ue8m0", 57344.0, 2.0**-3, 2.0**-17),
    )
}


def find_format(format: str | Format, argument: str = "format") -> Format:
    """The format of that name; a `Format` is its own. Raises ArgumentError, which names `argument`."""
    if isinstance(format, Format):
        return format
    if format not in FORMATS:
        raise ArgumentError(argument, f"{format!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[format]
