"""How the matrices of a call lie, and where TMA cannot read them. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.declarations.declaration import Axis, Matrix
from tilewright.formats.types import TMA_BYTES, bits, per_byte

if TYPE_CHECKING:
    import torch


def alignment_of(number: int, most: int) -> int:
    """The largest power of two, up to `most`, of which a number is a multiple."""
    return min(number & -number, most) if number else most


def layout_of(tensor: Any) -> tuple[Any, ...]:
    """A tensor's type, device, extents and strides, to be compared: the stride of an extent of 1, which means
    nothing, is 0. Empty for what is no tensor."""
    if not hasattr(tensor, "stride"):
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (tensor.dtype, tensor.device, *((n, step if n > 1 else 0) for n, step in pairs))


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A matrix, or a batch of such, as its tensor lies: extents and strides in elements of its type."""

    type: str
    batch: int
    rows: int
    columns: int
    batch_stride: int
    row_stride: int
    column_stride: int

    @classmethod
    def read(cls, matrix: Matrix, type: str, tensor: torch.Tensor) -> MatrixView:
        """Of a tensor of two or three dimensions. Two elements of FP4 share a byte along the dimension that
        the declaration says to be contiguous."""
        shape, strides = tuple(tensor.shape), tensor.stride()
        batch, batch_stride = (shape[0], strides[0]) if len(shape) == 3 else (1, 0)
        view = cls(type, batch, shape[-2], shape[-1], batch_stride, strides[-2], strides[-1])
        if (packed := per_byte(type)) == 1:
            return view
        view = replace(view, batch_stride=packed * batch_stride)
        if matrix.contiguous == "columns":
            return replace(view, columns=packed * view.columns, row_stride=packed * view.row_stride)
        return replace(view, rows=packed * view.rows, column_stride=packed * view.column_stride)

    @classmethod
    def dense(cls, matrix: Matrix, problem: Any) -> MatrixView:
        """Of a problem that has no tensors yet: without gaps."""
        rows, columns = matrix.shape(problem)
        steps = (columns, 1) if matrix.inner(problem) == "columns" else (1, rows)
        name = matrix.batch_of(problem)
        batch = getattr(problem, name) if name else 1
        return cls(matrix.type_of(problem), batch, rows, columns, rows * columns, *steps)

    def along(self, inner: Axis) -> tuple[int, int, int, int]:
        """With the rows contiguous (`inner` is columns), or the columns: how many of them there are, what
        lies between two, and of how many elements they are at what distance."""
        rows, columns = (self.rows, self.row_stride), (self.columns, self.column_stride)
        return (*rows, *columns) if inner == "columns" else (*columns, *rows)

    def aligned(self, inner: Axis, most: int, address: int | None = None) -> int:
        """Elements that leading dimension, batch stride and address are multiples of: a power of two, `most`
        at most. `address`: bytes that the address is a multiple of; None: enough."""
        outer, outer_stride, *_ = self.along(inner)
        found = most if address is None else min(address * 8 // bits(self.type), most)
        found = alignment_of(outer_stride, found) if outer > 1 else found
        return alignment_of(self.batch_stride, found) if self.batch > 1 else found

    def overlaps(self, inner: Axis) -> bool:
        """Whether rows (or columns) have elements in common."""
        outer, outer_stride, length, _ = self.along(inner)
        return outer > 1 and outer_stride < length

    def misplaced(self, inner: Axis, *, whole: bool = True, alignment: int = TMA_BYTES) -> str | None:
        """None where TMA can move the matrix with its rows contiguous (`inner` is columns), or its columns,
        else the reason. `whole`: these are whole 16 bytes, as CUTLASS wants it, and TMA does not.
        `alignment`: bytes, fewer where no TMA moves it."""
        unit = max(1, alignment * 8 // bits(self.type))
        multiple = f"a multiple of {unit} ({alignment} bytes)"
        outer, outer_stride, length, step = self.along(inner)
        lines = "rows" if inner == "columns" else "columns"
        given = f"shape [{self.rows}, {self.columns}] with strides ({self.row_stride}, {self.column_stride})"
        if length > 1 and step != 1:
            return f"{given}: no contiguous {lines}"
        if whole and length % unit:
            return f"{given}: {length} contiguous elements, not {multiple}"
        if self.overlaps(inner):
            return f"{given}: {lines} overlap"
        if outer > 1 and outer_stride % unit:
            return f"{given}: leading dimension {outer_stride} is not {multiple}"
        if self.batch > 1 and (self.batch_stride % unit or self.batch_stride < 0):
            return f"batch stride {self.batch_stride} is not {multiple}"
        return None
