"""Where operands lie, and what has to be copied before a kernel can read or write them.

TMA wants 16-byte multiples: addresses, leading dimensions, batch strides; CUTLASS wants the contiguous
extents too. Operands of 16 and 32 bits that are not so are copied, with padding; 8-bit ones are an error,
because a copy would cost more than the product is worth to whoever chose 8 bits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tilewright.errors import AlignmentError
from tilewright.ops.gemm.arguments import Arguments, Operand
from tilewright.ops.gemm.problem import BYTES, TMA_BYTES

log = logging.getLogger("tilewright")

NOTHING: frozenset[str] = frozenset()
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


def place(arguments: Arguments, misaligned: frozenset[str] = NOTHING, *, k_major: bool = False) -> Placement:
    """Decides layout and copies. `misaligned` names arguments whose address is no multiple of 16 bytes.

    `k_major` copies operands that do not have k contiguous, for want of a kernel that reads them as
    they are. Raises AlignmentError where an 8-bit problem would need a copy of more than a bias.
    """
    a, b = arguments.a, arguments.b
    sixteen_bit = BYTES[a.dtype] == 2
    a_major, a_reason = _major(a, k_row_major=True, either=sixteen_bit and not k_major)
    b_major, b_reason = _major(b, k_row_major=False, either=sixteen_bit and not k_major)
    reasons = {"a": a_reason, "b": b_reason}
    reasons["out"] = _output_reason(arguments.out, arguments)
    reasons["c"] = None if arguments.c is None else arguments.c.misplaced(row_major=True)
    for name in misaligned:
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
    n = _round_up(arguments.n, unit_n)
    if copies & {"a", "b"}:
        k = _round_up(k, unit_k)
    if k != arguments.k:
        copies |= {"a", "b"}
    if n != arguments.n:
        copies |= {"b", "out"}
        k = _round_up(k, unit_k)
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
    reason = operand.misplaced(row_major=k_row_major)
    if reason is None:
        return letters[k_row_major], None
    if either and operand.misplaced(row_major=not k_row_major) is None:
        return letters[not k_row_major], None
    return letters[k_row_major], reason


def _output_reason(out: Operand | None, arguments: Arguments) -> str | None:
    if out is not None:
        return out.misplaced(row_major=True)
    unit = TMA_BYTES // BYTES[arguments.d]
    if arguments.n % unit:
        return f"{arguments.n} columns, not a multiple of {unit} ({TMA_BYTES} bytes)"
    return None


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
