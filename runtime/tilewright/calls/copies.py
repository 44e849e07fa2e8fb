"""Copies of operands, in layouts that kernels take."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.calls.memory import padded, round_up
from tilewright.declarations.declaration import Matrix, Operand, Packed
from tilewright.formats.dtypes import as_bytes


def copy_of(operand: Operand, tensor: torch.Tensor, problem: Any) -> torch.Tensor:
    """A copy for a problem whose extents may be larger than the tensor's; the rest is 0. The rows (or
    columns) of a matrix begin at multiples of the alignment of its address."""
    if isinstance(operand, Matrix):
        rows, columns = operand.tensor_shape(problem)
        by_rows = operand.inner(problem) == "columns"
        outer, inner = (rows, columns) if by_rows else (columns, rows)
        width = round_up(inner, max(1, operand.alignment // tensor.element_size()))
        copy = padded(tensor if by_rows else tensor.mT, outer, width)[..., :inner]
        return copy if by_rows else copy.mT
    if isinstance(operand, Packed) and operand.has_gaps(problem):
        return blockwise_scales.m_major(tensor)
    if isinstance(operand, Packed) and len(operand.extents) == 1:
        return padded(tensor.unsqueeze(0), 1, *operand.shape_of(problem)).squeeze(0)
    return as_bytes(tensor).clone(memory_format=torch.contiguous_format).view(tensor.dtype)
