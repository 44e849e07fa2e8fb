"""The layouts of a call's matrices, and the layouts that TMA cannot read. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.declarations.declaration import Axis, Matrix
from tilewright.formats.types import TMA_BYTES, TYPES, per_byte

if TYPE_CHECKING:
    import torch


def alignment_of(number: int, most: int) -> int:
    """The largest power of two, up to `most`, of which a number is a multiple."""
    return min(number & -number, most) if number else most


def layout_of(tensor: Any) -> tuple[Any, ...]:
    """A tensor's type, device, extents and strides, for a comparison: the stride of an extent of 1 is
    arbitrary, and 0 stands for it. Empty for a value that is no tensor."""
    if not hasattr(tensor, "stride"):
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (tensor.dtype, tensor.device, *((n, step if n > 1 else 0) for n, step in pairs))


class Lines(NamedTuple):
    """The rows of a matrix, or its columns, in elements."""

    number: int
    stride: int  # from one line to the next
    length: int  # elements of a line
    step: int  # from one element of a line to the next


@dataclass(frozen=True, slots=True)
class MatrixView:
    """The layout of a matrix or a batch of matrices: extents and strides in elements of its type."""

    type: str
    batch: int
    rows: int
    columns: int
    batch_stride: int
    row_stride: int
    column_stride: int

    @classmethod
    def read(cls, matrix: Matrix, type: str, tensor: torch.Tensor) -> MatrixView:
        """The layout of a tensor of two or three dimensions. Two elements of FP4 share a byte along the
        dimension that the declaration calls contiguous, or that of its `pairs`."""
        shape, strides = tuple(tensor.shape), tensor.stride()
        batch, batch_stride = (shape[0], strides[0]) if len(shape) == 3 else (1, 0)
        view = cls(type, batch, shape[-2], shape[-1], batch_stride, strides[-2], strides[-1])
        if (packed := per_byte(type)) == 1:
            return view
        view = replace(view, batch_stride=packed * batch_stride)
        if (matrix.pairs if callable(matrix.contiguous) else matrix.contiguous) == "columns":
            return replace(view, columns=packed * view.columns, row_stride=packed * view.row_stride)
        return replace(view, rows=packed * view.rows, column_stride=packed * view.column_stride)

    @classmethod
    def dense(cls, matrix: Matrix, problem: Any) -> MatrixView:
        """The layout without gaps, for a problem that has no tensors yet."""
        rows, columns = matrix.shape(problem)
        steps = (columns, 1) if matrix.inner(problem) == "columns" else (1, rows)
        name = matrix.batch_of(problem)
        batch = getattr(problem, name) if name else 1
        return cls(matrix.type_of(problem), batch, rows, columns, rows * columns, *steps)

    def along(self, inner: Axis) -> Lines:
        """The rows, if `inner` is columns, else the columns: the lines that are to be contiguous."""
        rows, columns = (self.rows, self.row_stride), (self.columns, self.column_stride)
        return Lines(*rows, *columns) if inner == "columns" else Lines(*columns, *rows)

    def aligned(self, inner: Axis, most: int, address: int | None = None) -> int:
        """The largest power of two, up to `most`, of which leading dimension, batch stride and address are
        multiples, in elements. `address`: bytes that the address is a multiple of; None: it does not
        limit."""
        lines = self.along(inner)
        alignment = most if address is None else min(address * 8 // TYPES[self.type].bits, most)
        alignment = alignment_of(lines.stride, alignment) if lines.number > 1 else alignment
        return alignment_of(self.batch_stride, alignment) if self.batch > 1 else alignment

    def overlaps(self, inner: Axis) -> bool:
        """Whether rows (or columns) have elements in common."""
        lines = self.along(inner)
        return lines.number > 1 and lines.stride < lines.length

    def misplaced(self, inner: Axis, *, whole: bool = True, alignment: int = TMA_BYTES) -> str | None:
        """Why TMA cannot move the matrix with contiguous rows (if `inner` is columns) or columns; None if it
        can.

        `whole`: whether a line must be a multiple of 16 bytes, which CUTLASS requires and TMA does not.
        `alignment`: the bytes of an address's alignment, fewer if the kernel does not move it by TMA.
        """
        unit = max(1, alignment * 8 // TYPES[self.type].bits)
        multiple = f"a multiple of {unit} ({alignment} bytes)"
        lines = self.along(inner)
        name = "rows" if inner == "columns" else "columns"
        layout = f"shape [{self.rows}, {self.columns}] with strides ({self.row_stride}, {self.column_stride})"
        if lines.length > 1 and lines.step != 1:
            return f"{layout}: no contiguous {name}"
        if whole and lines.length % unit:
            return f"{layout}: {lines.length} contiguous elements, not {multiple}"
        if self.overlaps(inner):
            return f"{layout}: {name} overlap"
        if lines.number > 1 and lines.stride % unit:
            return f"{layout}: leading dimension {lines.stride} is not {multiple}"
        if self.batch > 1 and self.batch_stride % unit:
            return f"batch stride {self.batch_stride} is not {multiple}"
        return None
