"""The problem of a call of the quantising ops, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from tilewright import scale_factors
from tilewright.configurations.shared import flag
from tilewright.declarations.problem import ProblemBase
from tilewright.declarations.scaled import matrix_bytes
from tilewright.formats.types import TYPES, bits

FLOATS = ("bf16", "f16", "f32")
XType = Literal["bf16", "f16", "f32", "e4m3"]
X_TYPES = get_args(XType)
Format = Literal["nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2", "fp8_1x128", "fp8_128x1", "fp8_128x128"]
FORMATS = get_args(Format)
BLOCK = {name: TYPES[name].block for name in FORMATS}  # the rows and columns that share a scale
LAYOUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2"), scale_factors.LAYOUTS),
    "fp8_1x128": ("m_major", "row_major", "packed"),
    "fp8_128x1": ("row_major",),
    "fp8_128x128": ("row_major", "packed"),
}
# Formats with scales of float32, or of four UE8M0 in a word.
BLOCKWISE = ("fp8_1x128", "fp8_128x1", "fp8_128x128")
Direction = Literal["quantize", "dequantize"]
DIRECTIONS = get_args(Direction)
Fusion = Literal["none", "silu_mul", "rmsnorm"]
FUSIONS = get_args(Fusion)
FourOverSix = Literal["none", "mse", "mae"]
FOUR_OVER_SIX = get_args(FourOverSix)
SCALE_LAYOUTS = ("128x4", "8x4", "linear", "row_major", "m_major", "packed")  # their order is C's
MOST_ALIGNED = 32  # the largest alignment that a kernel needs, in elements


class Alignment(NamedTuple):
    """The number of elements at whose multiples x and the data, their rows and groups begin."""

    x: int = MOST_ALIGNED
    data: int = MOST_ALIGNED


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """x[groups, m, k] into data and scales of a format, or back (`direction` is dequantize).

    With the fusion silu_mul, x is [groups, m, 2k]. `exact`: bit for bit what `tilewright.reference` says.
    """

    kind_fields = ("direction", "format", "x", "fusion", "four_over_six", "exact")
    shown_beyond_1 = (("groups", " in {} groups"),)

    m: int
    k: int
    groups: int = 1
    direction: str = "quantize"
    format: str = "nvfp4"
    x: str = "bf16"
    layout: str = "128x4"
    fusion: str = "none"
    global_scale: str = "none"  # none; tensor: one for all; row: one for each row
    four_over_six: str = "none"  # which error chooses between two scales of a NVFP4 block
    exact: bool = True
    alignment: Alignment = field(default=Alignment())

    @property
    def elements(self) -> int:
        """The elements of the data."""
        return self.groups * self.m * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: x, data and scales once."""
        parts = 2 if self.fusion == "silu_mul" else 1
        data = self.groups * matrix_bytes(self.m, self.k, self.format, self.layout)
        return parts * self.elements * bits(self.x) // 8 + data

    @property
    def op_text(self) -> str:
        return self.direction

    @property
    def types_text(self) -> str:
        types = f"{self.x} -> {self.format}" if self.direction == "quantize" else f"{self.format} -> {self.x}"
        scale = {"none": "", "tensor": "a global scale", "row": "a global scale a row"}[self.global_scale]
        chosen = flag(f"four over six by {self.four_over_six}", self.four_over_six != "none")
        extras = (self.fusion.replace("none", ""), chosen, scale, flag("fast arithmetic", not self.exact))
        return ", ".join([types, f"scales {self.layout}", *filter(None, extras)])


def inputs(format: str) -> tuple[str, ...]:
    """The types that can be quantised to a format; FP8 only to NVFP4."""
    return X_TYPES if format == "nvfp4" else FLOATS
