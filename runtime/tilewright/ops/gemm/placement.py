"""In which layout a product is computed, and what has to be copied before a kernel can read or write it.

TMA wants 16-byte multiples: addresses, leading dimensions, batch strides; CUTLASS wants the contiguous
extents too. Operands of 16 and 32 bits that are not so are copied, with padding; 8-bit ones are an error,
because a copy would cost more than the product is worth to whoever chose 8 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import AlignmentError
from tilewright.interface.declaration import TMA_BYTES, Axis, Matrix
from tilewright.interface.matrices import MatrixView
from tilewright.interface.placement import Arguments, Placement
from tilewright.ops.common.memory import round_up
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.interface import INTERFACE
from tilewright.ops.gemm.problem import Problem
from tilewright.types import bits

_OUT = next(one for one in INTERFACE.operands if isinstance(one, Matrix) and one.written)


def place(
    context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
) -> Placement:
    """The problem in the layout in which its operands lie, if there is a kernel of that layout; else in tn,
    with operands copied. Raises AlignmentError where an 8-bit problem would need a copy of more than a bias.
    """
    records = context.registry.route(FAMILY.name, device)
    placement = _place(arguments, addresses, k_major=False)
    unread = placement.problem.layout != "tn" and not placement.copies
    if unread and not FAMILY.fitting_kept(context.registry, records, placement.problem):
        return _place(arguments, addresses, k_major=True)
    return placement


def _place(arguments: Arguments, addresses: Mapping[str, int], *, k_major: bool) -> Placement:
    """`k_major` copies operands that do not have k contiguous, for want of a kernel that reads them so."""
    problem: Problem = arguments.problem
    views, width = dict(arguments.matrices), bits(problem.a)
    views.setdefault("out", MatrixView.dense(_OUT, problem))
    reasons: dict[str, str | None] = {}
    inner: dict[str, Axis] = {"a": "columns", "b": "rows", "c": "columns", "out": "columns"}
    for name, view in views.items():
        reasons[name] = view.misplaced(inner[name])
        other: Axis = "rows" if inner[name] == "columns" else "columns"
        either = name in ("a", "b") and width == 16 and not k_major
        if reasons[name] and either and view.misplaced(other) is None:
            inner[name], reasons[name] = other, None
    for name in (name for name, alignment in addresses.items() if alignment < TMA_BYTES):
        reasons[name] = reasons.get(name) or f"its address is not a multiple of {TMA_BYTES} bytes"
    wrong = [name for name in ("a", "b", "c", "out", "bias") if reasons.get(name)]
    if width == 8 and wrong not in ([], ["bias"]):
        raise AlignmentError(
            wrong[0],
            str(reasons[wrong[0]]),
            hint="Operands of 8 bits are never copied: a is wanted row-major and b column-major, with "
            f"addresses, strides and contiguous extents (k; n of D) that are multiples of {TMA_BYTES} bytes.",
        )
    copies, n, k = _padded(problem, set(wrong))
    letters = {"columns": "t", "rows": "n"}
    layout = ("t" if "a" in copies else letters[inner["a"]]) + ("n" if "b" in copies else letters[inner["b"]])
    return Placement(replace(problem, layout=layout, n=n, k=k), frozenset(copies))


def _padded(problem: Problem, copies: set[str]) -> tuple[set[str], int, int]:
    """What is copied, with n and k padded where needed; a copied operand has k contiguous."""
    unit_k, unit_n = TMA_BYTES * 8 // bits(problem.a), TMA_BYTES * 8 // bits(problem.d)
    n, k = round_up(problem.n, unit_n), problem.k
    if n != problem.n:
        copies |= {"b", "out"} | ({"c"} if problem.c else set()) | ({"bias"} if problem.bias else set())
    if copies & {"a", "b"}:
        k = round_up(k, unit_k)
    if k != problem.k:
        copies |= {"a", "b"}
    return copies, n, k
