"""Matrices of a batch, as tensors hold them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.errors import ArgumentError
from tilewright.ops.common import memory
from tilewright.ops.common.guards import dims
from tilewright.ops.common.symbolic import certainly, differ, symbolic

MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of a batch, as its tensor lies: extents and strides in the tensor's elements."""

    name: str
    dtype: str  # as the family calls it
    batch: int
    rows: int
    columns: int
    batch_stride: int
    row_stride: int
    column_stride: int

    @classmethod
    def read(cls, name: str, dtype: str, tensor: torch.Tensor) -> Operand:
        shape, strides = tuple(tensor.shape), tensor.stride()
        if len(shape) not in (2, 3):
            raise ArgumentError(
                name, f"its shape is {dims(shape)}; two dimensions, or three with a batch first, are wanted"
            )
        if any(certainly(extent > MAX_EXTENT) for extent in shape):
            raise ArgumentError(name, f"its shape is {dims(shape)}; at most {MAX_EXTENT} is possible")
        batch, batch_stride = (shape[0], strides[0]) if len(shape) == 3 else (1, 0)
        return cls(name, dtype, batch, shape[-2], shape[-1], batch_stride, strides[-2], strides[-1])


def product_shape(a: torch.Tensor, b: torch.Tensor, rows: int, columns: int) -> tuple[int, ...]:
    """The shape of a product of matrices or batches of them. Raises ArgumentError where batches differ."""
    batches = [tensor.shape[0] if tensor.dim() == 3 else 1 for tensor in (a, b)]
    single = [certainly(batch == 1) for batch in batches]
    if not any(single) and certainly(batches[0] != batches[1]):
        raise ArgumentError("b", f"its batch is {batches[1]} and a's {batches[0]}; equal ones are wanted")
    batch = batches[1] if single[0] else batches[0]
    return (batch, rows, columns) if 3 in (a.dim(), b.dim()) else (rows, columns)


def read_output(name: str, dtype: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> Operand:
    """`out`, or a c, of the given shape (c: one matrix for every batch, too) with contiguous rows."""
    allowed = [shape] if name == "out" else [shape, shape[-2:]]
    if all(differ(tensor.shape, one) for one in allowed):
        raise ArgumentError(name, f"its shape is {dims(tensor.shape)}; {dims(shape)} is wanted")
    operand = Operand.read(name, dtype, tensor)
    if symbolic(tensor) or tensor.numel() == 0:
        return operand
    if operand.columns > 1 and operand.column_stride != 1:
        raise ArgumentError(
            name, f"its strides are {tensor.stride()}; contiguous rows are wanted (the last stride is 1)"
        )
    if name == "out" and memory.overlaps_itself(tensor):
        raise ArgumentError(name, f"its strides are {tensor.stride()}: elements of it overlap")
    return operand
