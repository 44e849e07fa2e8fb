"""Checks of operands' elements: their types, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.calls import guards
from tilewright.calls.guards import certainly, differ, dims, symbolic
from tilewright.calls.op import Op, Values
from tilewright.declarations.declaration import Combinations, Matrix, Operand, Packed
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.formats.dtypes import DTYPES
from tilewright.formats.types import TYPES


def types_of(
    op: Op, values: Values, required: Sequence[Operand], combinations: Combinations
) -> dict[str, str]:
    """The fields of a problem that hold types, which the dtypes of `required` operands give."""
    operands = [next(operand for operand in required if operand.type == field) for field in combinations.read]
    names = [operand.name for operand in operands]
    types: list[str] = []
    for position, operand in enumerate(operands):
        possible = dict.fromkeys([types[position] for types in combinations.legal])
        dtypes = {name: _dtypes(name, operand, only=len(possible) == 1) for name in possible}
        dtype = values[operand.name].dtype
        types += [name for name in possible if dtype in dtypes[name]][:1]
        if len(types) == position:
            legal = guards.dtypes(dict.fromkeys([dtype for name in possible for dtype in dtypes[name]]))
            message = f"its dtype is {dtype}; expected one of {legal} by {op.name}"
            raise ArgumentTypeError(operand.name, message)
    if tuple(types) not in combinations.legal:
        actual = " and ".join(f"{name} is {values[name].dtype}" for name in names)
        pairs = dict.fromkeys(guards.dtypes(map(DTYPES.get, pair)) for pair in combinations.legal)
        expected = f"({', '.join(names)}) of {', '.join(f'({pair})' for pair in pairs)}"
        raise ArgumentTypeError(names[-1], f"{actual}; expected {expected}")
    fields = dict(zip(combinations.read, types, strict=True))
    if combinations.result:
        fields[combinations.result] = _result_type(op, values, combinations, tuple(types))
    return fields


def _result_type(op: Op, values: Values, combinations: Combinations, types: tuple[str, ...]) -> str:
    """The result's type: the type that the call asks for, else that of `out`, else the default."""
    legal = combinations.legal[types]
    asked, out = values.get(combinations.option), values.get("out")
    if asked is None and out is None and op.defaults().get(combinations.option) is None:
        return legal[0]
    argument, dtype = combinations.option, asked
    if asked is None and out is not None:
        argument, dtype = "out", out.dtype
    if dtype is not None:
        guards.check_dtype(argument, dtype)
    for name in legal:
        if dtype == DTYPES[name]:
            return name
    expected, read = guards.dtypes(map(DTYPES.get, legal)), guards.dtypes(map(DTYPES.get, types))
    subject = "its dtype" if argument == "out" else "it"
    message = f"{subject} is {dtype}; expected one of {expected} for operands of {read}"
    raise ArgumentTypeError(argument, message)


def _dtypes(name: str, operand: Operand, *, only: bool) -> list[torch.dtype]:
    """The dtypes that stand for a type. Bytes are FP4 if that is possible, and FP8 of the `only` type."""
    bits = TYPES[name].bits
    raw = operand.raw and (bits == 4 or (only and bits == 8))
    return [DTYPES[name], *([torch.uint8] if raw else [])]


def check_contiguous(matrix: Matrix, tensor: torch.Tensor) -> None:
    """Raises ArgumentError if the declared dimension of a matrix that is not copied is not contiguous."""
    if callable(matrix.contiguous) or (matrix.copied and not matrix.written):
        return
    inner = -1 if matrix.contiguous == "columns" else -2
    empty = any(certainly(extent == 0) for extent in tensor.shape)
    if certainly(tensor.shape[inner] > 1) and certainly(tensor.stride(inner) != 1) and not empty:
        expected = "contiguous rows (a last stride of 1)"
        if inner == -2:
            expected = f"contiguous columns: the transpose of a row-major [{matrix.columns}, {matrix.rows}]"
        message = f"its strides are {tuple(tensor.stride())}; expected {expected}"
        raise ArgumentError(matrix.name, message, hint=matrix.remedy or None)


def check_packed(operand: Packed, tensor: torch.Tensor, shape: tuple[int, ...], problem: Any) -> None:
    """Raises ArgumentError if it has another shape, or gaps that its kind does not have. An operand without a
    shape of its own may have any shape with as many elements."""
    count = 1
    for extent in shape:
        count *= extent
    shaped = operand.has_shape(problem)
    wrong = differ(tensor.shape, shape) if shaped else certainly(tensor.numel() != count)
    if wrong:
        expected = dims(shape)
        if not shaped:
            expected = f"{count} elements, as of {dims(shape)}" if shape else "one number"
        raise ArgumentError(operand.name, f"its shape is {dims(tensor.shape)}; expected {expected}")
    may_have_gaps = operand.has_gaps(problem) or (operand.copied and not operand.written)
    if not may_have_gaps and not symbolic(tensor) and not tensor.is_contiguous():
        message = f"its strides are {tuple(tensor.stride())}; expected a contiguous {dims(shape)}"
        raise ArgumentError(operand.name, message)
    if operand.written and operand.has_gaps(problem) and not symbolic(tensor):
        blockwise_scales.with_padding(tensor, operand.name)  # raises if it has no memory for that
