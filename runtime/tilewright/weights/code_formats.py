"""The formats of quantised weights: what a code means, and which scales go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

FormatName = Literal["int4", "int8", "mxfp4", "nvfp4", "e4m3"]

E2M1_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The values of E2M1's codes 0 to 7; bit 3 of a code is the sign (OCP Microscaling 1.0, table 5)."""

_INTEGER_SCALES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class CodeFormat:
    """A format of codes, one to a byte."""

    name: FormatName
    bits: int
    middle: int | None
    """The zero point of integers that have none of their own. None: codes are floating-point numbers."""
    group: int | None
    """The elements along k that share a scale, where the format says so."""
    scales: tuple[torch.dtype, ...]
    """The dtypes that scales may have."""


CODE_FORMATS: dict[str, CodeFormat] = {
    x.name: x
    for x in (
        CodeFormat("int4", 4, 8, None, _INTEGER_SCALES),
        CodeFormat("int8", 8, 128, None, _INTEGER_SCALES),
        CodeFormat("mxfp4", 4, None, 32, (torch.float8_e8m0fnu,)),
        CodeFormat("nvfp4", 4, None, 16, (torch.float8_e4m3fn,)),
        CodeFormat("e4m3", 8, None, None, _INTEGER_SCALES),
    )
}
