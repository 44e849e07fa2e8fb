"""Scale factors of block-scaled formats: shapes, types and bytes, in every layout. Needs no torch.

The layouts of `tilewright.scale_factors` hold single bytes. Those of `tilewright.blockwise_scales` hold
floats, or words of four exponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tilewright import blockwise_scales, scale_factors
from tilewright.declarations.declaration import Matrix, Packed
from tilewright.formats.types import TMA_BYTES, TYPES, bits

COLUMNS = ("m_major", "packed")  # layouts whose columns begin at multiples of four rows, with padding


def scale_shape(rows: int, k: int, name: str, layout: str = "128x4") -> tuple[int, int]:
    """The rows and columns of the tensor of a matrix's scale factors: bytes including padding, or packed
    words. Extents may be symbols."""
    down, across = TYPES[name].block
    if layout in scale_factors.LAYOUTS:
        return scale_factors.padded(rows, k, across, layout)
    columns = -(-k // across)
    return (rows, blockwise_scales.words(columns)) if layout == "packed" else (-(-rows // down), columns)


def scale_type(name: str, layout: str = "128x4") -> str:
    """The type of the elements of a tensor of scale factors."""
    return "s32" if layout == "packed" else TYPES[name].scale


def matrix_bytes(rows: int, k: int, name: str, layout: str = "128x4") -> int:
    """The bytes of a matrix and, if its type has scale factors, of these with their padding."""
    elements = rows * k * bits(name) // 8
    if not TYPES[name].scale:
        return elements
    held, columns = scale_shape(rows, k, name, layout)
    held = blockwise_scales.leading(held) if layout in COLUMNS else held
    return elements + prod((held, columns, bits(scale_type(name, layout)) // 8))


@dataclass(frozen=True, kw_only=True)
class ScaleFactors(Packed):
    """The scale factors of a matrix. Their type, shape and strides follow from the matrix and the layout."""

    matrix: Matrix
    layout: str  # the name of the layout, or of the field of a problem that holds it
    alignment: int = TMA_BYTES
    raw: bool = True
    type: str = "scale"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "of", self.matrix.name)  # the dataclass is frozen

    def layout_of(self, problem: Any) -> str:
        return str(getattr(problem, self.layout, self.layout))

    def type_of(self, problem: Any) -> str:
        return scale_type(self.matrix.type_of(problem), self.layout_of(problem))

    def shape_of(self, problem: Any) -> tuple[int, int]:
        rows, columns = self.matrix.shape(problem)
        along_k = (rows, columns) if self.matrix.inner(problem) == "columns" else (columns, rows)
        return scale_shape(*along_k, self.matrix.type_of(problem), self.layout_of(problem))

    def has_shape(self, problem: Any) -> bool:
        return self.layout_of(problem) in blockwise_scales.LAYOUTS

    def has_gaps(self, problem: Any) -> bool:
        return self.layout_of(problem) in COLUMNS

    @cached_property
    def strides(self) -> tuple[str, ...]:
        return () if self.layout in scale_factors.LAYOUTS else (f"ld_{self.field}",)
