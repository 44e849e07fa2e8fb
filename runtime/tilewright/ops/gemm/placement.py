"""Where operands lie, and what has to be copied before a kernel can read or write them.

TMA wants 16-byte multiples: addresses, leading dimensions, batch strides; CUTLASS wants the contiguous
extents too. Operands of 16 and 32 bits that are not so are copied, with padding; 8-bit ones are an error,
because a copy would cost more than the product is worth to whoever chose 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import AlignmentError
from tilewright.interface.declaration import TMA_BYTES
from tilewright.ops.common.memory import round_up
from tilewright.ops.common.operands import Operand
from tilewright.ops.gemm.arguments import Arguments
from tilewright.ops.gemm.problem import BYTES

_ARGUMENTS = ("a", "b", "c", "out", "bias")


@dataclass(frozen=True, slots=True)
class Placement:
    """The layout to compute in, and the arguments to copy (`out`: to write elsewhere first).

    `k` and `n` are what the copies are padded to.
    """

    layout: str
    copies: frozenset[str]
    k: int
    n: int


def place(
    arguments: Arguments, addresses: frozenset[tuple[str, int]] = frozenset(), *, k_major: bool = False
) -> Placement:
    """Decides layout and copies. `addresses` says of arguments what their address is a multiple of.

    `k_major` copies operands that do not have k contiguous, for want of a kernel that reads them as
    they are. Raises AlignmentError where an 8-bit problem would need a copy of more than a bias.
    """
    a, b = arguments.a, arguments.b
    sixteen_bit = BYTES[a.dtype] == 2
    a_major, a_reason = _major(a, k_row_major=True, either=sixteen_bit and not k_major)
    b_major, b_reason = _major(b, k_row_major=False, either=sixteen_bit and not k_major)
    reasons = {"a": a_reason, "b": b_reason}
    reasons["out"] = _output_reason(arguments.out, arguments)
    reasons["c"] = None if arguments.c is None else misplaced(arguments.c, row_major=True)
    for name in (name for name, alignment in addresses if alignment < TMA_BYTES):
        reasons[name] = reasons.get(name) or f"its address is not a multiple of {TMA_BYTES} bytes"
    wrong = {name: reason for name in _ARGUMENTS if (reason := reasons.get(name)) is not None}
    if BYTES[a.dtype] == 1 and set(wrong) - {"bias"}:
        name = next(name for name in wrong if name != "bias")
        raise AlignmentError(
            name,
            wrong[name],
            hint="Operands of 8 bits are never copied: a is wanted row-major and b column-major, with "
            f"addresses, strides and contiguous extents (k; n of D) that are multiples of {TMA_BYTES} bytes.",
        )
    return _plan_copies(arguments, set(wrong), a_major, b_major)


def _plan_copies(arguments: Arguments, copies: set[str], a_major: str, b_major: str) -> Placement:
    """Pads k and n where needed; a copied operand has k contiguous."""
    unit_k = TMA_BYTES // BYTES[arguments.a.dtype]
    unit_n = TMA_BYTES // BYTES[arguments.d]
    k = arguments.k
    n = round_up(arguments.n, unit_n)
    if copies & {"a", "b"}:
        k = round_up(k, unit_k)
    if k != arguments.k:
        copies |= {"a", "b"}
    if n != arguments.n:
        copies |= {"b", "out"}
        k = round_up(k, unit_k)
        if k != arguments.k:
            copies.add("a")
        if arguments.c is not None:
            copies.add("c")
        if arguments.bias:
            copies.add("bias")
    layout = ("t" if "a" in copies else a_major) + ("n" if "b" in copies else b_major)
    return Placement(layout, frozenset(copies), k, n)


def _major(operand: Operand, *, k_row_major: bool, either: bool) -> tuple[str, str | None]:
    """The letter of the layout, and why TMA cannot read it so; k contiguous where both would do."""
    letters = {True: "t", False: "n"}
    reason = misplaced(operand, row_major=k_row_major)
    if reason is None:
        return letters[k_row_major], None
    if either and misplaced(operand, row_major=not k_row_major) is None:
        return letters[not k_row_major], None
    return letters[k_row_major], reason


def _output_reason(out: Operand | None, arguments: Arguments) -> str | None:
    if out is not None:
        return misplaced(out, row_major=True)
    unit = TMA_BYTES // BYTES[arguments.d]
    if arguments.n % unit:
        return f"{arguments.n} columns, not a multiple of {unit} ({TMA_BYTES} bytes)"
    return None


def misplaced(operand: Operand, row_major: bool) -> str | None:
    """None where TMA can move a matrix with its rows (or its columns) contiguous, else the reason."""
    unit = TMA_BYTES // BYTES[operand.dtype]
    rows, columns = (operand.rows, operand.row_stride), (operand.columns, operand.column_stride)
    (outer, outer_stride), (inner, inner_stride) = (rows, columns) if row_major else (columns, rows)
    given = (
        f"shape [{operand.rows}, {operand.columns}] "
        f"with strides ({operand.row_stride}, {operand.column_stride})"
    )
    if inner > 1 and inner_stride != 1:
        return f"{given}: no contiguous {'rows' if row_major else 'columns'}"
    if inner % unit:
        return f"{given}: {inner} contiguous elements, not a multiple of {unit} ({TMA_BYTES} bytes)"
    if outer > 1 and outer_stride < inner:
        return f"{given}: {'rows' if row_major else 'columns'} overlap"
    if outer > 1 and outer_stride % unit:
        return f"{given}: leading dimension {outer_stride} is not a multiple of {unit} ({TMA_BYTES} bytes)"
    if operand.batch > 1 and (operand.batch_stride % unit or operand.batch_stride < 0):
        return f"batch stride {operand.batch_stride} is not a multiple of {unit} ({TMA_BYTES} bytes)"
    return None
