"""What is checked of one operand by itself, as it is declared."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.calls.guards import dims
from tilewright.calls.symbolic import certainly, differ, symbolic
from tilewright.declarations.declaration import Matrix, Operand, Packed
from tilewright.errors import ArgumentError
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import bits, per_byte


def told_by(name: str, operand: Operand, *, only: bool) -> list[torch.dtype]:
    """The dtypes that tell a type. Bytes are FP4 where that is possible, and FP8 of the `only` type."""
    raw = operand.raw and (per_byte(name) > 1 or (only and bits(name) == 8))
    return [dtype_of(name), *([torch.uint8] if raw else [])]


def check_contiguous(matrix: Matrix, tensor: torch.Tensor) -> None:
    """Raises ArgumentError where a matrix that is not copied lies otherwise than it always has to."""
    if callable(matrix.contiguous) or (matrix.copied and not matrix.written):
        return
    inner = -1 if matrix.contiguous == "columns" else -2
    if certainly(tensor.shape[inner] > 1) and certainly(tensor.stride(inner) != 1) and not _empty(tensor):
        wanted = "contiguous rows are wanted (the last stride is 1)"
        if inner == -2:
            wanted = (
                "contiguous columns are wanted: the transpose of a row-major "
                f"[{matrix.columns}, {matrix.rows}]"
            )
        raise ArgumentError(matrix.name, f"its strides are {tuple(tensor.stride())}; {wanted}")


def _empty(tensor: torch.Tensor) -> bool:
    return any(certainly(extent == 0) for extent in tensor.shape)


def check_packed(operand: Packed, tensor: torch.Tensor, shape: tuple[int, ...], problem: Any) -> None:
    """Raises ArgumentError where it has another shape, or gaps that its kind does not have. One without a
    shape of its own may have any of as many elements."""
    count = 1
    for extent in shape:
        count *= extent
    shaped = operand.has_shape(problem)
    wrong = differ(tensor.shape, shape) if shaped else certainly(tensor.numel() != count)
    if wrong:
        wanted = f"{dims(shape)} is wanted"
        if not shaped:
            wanted = f"{count} elements, as of {dims(shape)}, are wanted" if shape else "one number is wanted"
        raise ArgumentError(operand.name, f"its shape is {dims(tensor.shape)}; {wanted}")
    may_have_gaps = operand.has_gaps(problem) or (operand.copied and not operand.written)
    if not may_have_gaps and not symbolic(tensor) and not tensor.is_contiguous():
        message = f"its strides are {tuple(tensor.stride())}; a contiguous {dims(shape)} is wanted"
        raise ArgumentError(operand.name, message)
    if operand.written and operand.has_gaps(problem) and not symbolic(tensor):
        blockwise_scales.with_padding(tensor, operand.name)  # raises where it has no memory for that
