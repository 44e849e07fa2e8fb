"""The layout in which a product is computed, and the operands that are copied before a kernel can use them.

TMA needs multiples of 16 bytes: addresses, leading dimensions and batch strides of a and b. Lean kernels need
no more. CUTLASS's kernels need it for c, the bias and the result too, and for contiguous extents. Operands of
16 and 32 bits that do not comply are copied, with padding. For operands of 8 bits it is an error, because a
copy would cost more than 8 bits save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from tilewright.architectures.device import DeviceProperties
from tilewright.calls.memory import round_up
from tilewright.calls.placement import Arguments, Placement
from tilewright.context import Context
from tilewright.declarations.declaration import Axis, Matrix
from tilewright.declarations.matrices import MatrixView, alignment_of
from tilewright.errors import AlignmentError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import OWN_OPERANDS, Problem
from tilewright.formats.types import TMA_BYTES, bits, bytes_of

_OUT = cast(Matrix, INTERFACE.operand("out"))


def place(
    context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
) -> Placement:
    """The problem in the layout of its operands, if a kernel has that layout; else in layout tn, with copied
    operands. Copies only what no kernel supports. Raises AlignmentError if operands of 8 bits would have to
    be copied.
    """
    records = context.registry.route(FAMILY.name, device)
    ways: list[dict[str, bool]] = [{"lean": True}] if arguments.problem.a in OWN_OPERANDS else []
    for way in (*ways, {}, {"k_major": True}):
        placement = _place(arguments, addresses, **way)
        if FAMILY.fitting_kept(context.registry, records, placement.problem):
            break
    return placement


def _place(
    arguments: Arguments, addresses: Mapping[str, int], *, lean: bool = False, k_major: bool = False
) -> Placement:
    """`lean`: for a kernel that takes any extents, and c, bias and result of any alignment. `k_major`: copies
    operands in which k is not contiguous, because no kernel reads them."""
    problem: Problem = arguments.problem
    views, width = dict(arguments.matrices), bits(problem.a)
    views.setdefault("out", MatrixView.dense(_OUT, problem))
    alignment = _alignment(views, addresses)
    if lean:
        views = {name: views[name] for name in ("a", "b")}
        addresses = {name: address for name, address in addresses.items() if name in views}
    reasons: dict[str, str | None] = {}
    inner: dict[str, Axis] = {"a": "columns", "b": "rows", "c": "columns", "out": "columns"}
    for name, view in views.items():
        reasons[name] = view.misplaced(inner[name], whole=not lean)
        outer: Axis = "rows" if inner[name] == "columns" else "columns"
        either = name in ("a", "b") and width == 16 and not k_major
        if reasons[name] and either and view.misplaced(outer, whole=not lean) is None:
            inner[name], reasons[name] = outer, None
    for name in (name for name, alignment in addresses.items() if alignment < TMA_BYTES):
        reasons[name] = reasons.get(name) or f"its address is not a multiple of {TMA_BYTES} bytes"
    wrong = [name for name in ("a", "b", "c", "out", "bias") if reasons.get(name)]
    if width == 8 and wrong not in ([], ["bias"]):
        raise AlignmentError(
            wrong[0],
            str(reasons[wrong[0]]),
            hint="Operands of 8 bits are never copied: a must be row-major and b column-major, with "
            f"addresses and strides{'' if lean else ' and contiguous extents (k; n of D)'} that are "
            f"multiples of {TMA_BYTES} bytes.",
        )
    copies, n, k = (set(wrong), problem.n, problem.k) if lean else _padded(problem, set(wrong))
    if "out" in copies:
        alignment = TMA_BYTES
    letters = {"columns": "t", "rows": "n"}
    layout = ("t" if "a" in copies else letters[inner["a"]]) + ("n" if "b" in copies else letters[inner["b"]])
    return Placement(replace(problem, layout=layout, n=n, k=k, alignment=alignment), frozenset(copies))


def _alignment(views: Mapping[str, MatrixView], addresses: Mapping[str, int]) -> int:
    """`Problem.alignment`: the alignment of C, D and the bias."""
    multiples = [addresses[name] for name in ("c", "out", "bias") if name in addresses]
    for view in (views[name] for name in ("c", "out") if name in views):
        size = bytes_of(view.type)
        multiples += [view.row_stride * size] if view.rows > 1 else []
        multiples += [view.batch_stride * size] if view.batch > 1 else []
    return min((alignment_of(multiple, TMA_BYTES) for multiple in multiples), default=TMA_BYTES)


def _padded(problem: Problem, copies: set[str]) -> tuple[set[str], int, int]:
    """The operands to copy, and n and k with padding. In a copied operand, k is contiguous."""
    unit_k, unit_n = TMA_BYTES * 8 // bits(problem.a), TMA_BYTES * 8 // bits(problem.d)
    n, k = round_up(problem.n, unit_n), problem.k
    if n != problem.n:
        copies |= {"b", "out"} | ({"c"} if problem.c else set()) | ({"bias"} if problem.bias else set())
    if copies & {"a", "b"}:
        k = round_up(k, unit_k)
    if k != problem.k:
        copies |= {"a", "b"}
    return copies, n, k
