"""Copies of operands, which lie as kernels take them."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.interface.declaration import Matrix, Operand, Packed
from tilewright.ops.common.formats import as_bytes
from tilewright.ops.common.memory import padded


def copy_of(operand: Operand, tensor: torch.Tensor, problem: Any) -> torch.Tensor:
    """A copy for a problem whose extents may be larger: what is beyond the tensor's is 0."""
    if isinstance(operand, Matrix):
        rows, columns = operand.tensor_shape(problem)
        if operand.inner(problem) == "columns":
            return padded(tensor, rows, columns)
        return padded(tensor.mT, columns, rows).mT
    if isinstance(operand, Packed) and len(operand.extents) == 1:
        return padded(tensor.unsqueeze(0), 1, *operand.shape_of(problem)).squeeze(0)
    return as_bytes(tensor).clone(memory_format=torch.contiguous_format).view(tensor.dtype)
