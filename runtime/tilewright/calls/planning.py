"""Makes plans: what is copied, which kernel runs, or that nothing has to be launched."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.calls import memory
from tilewright.calls.op import Op
from tilewright.calls.placement import Arguments, Placement
from tilewright.calls.plan import DirectPlan, EmptyPlan, Plan, bind
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic

log = logging.getLogger("tilewright")


def make(  # noqa: PLR0917 (what a plan is made of)
    op: Op,
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    again: Callable[..., Any],
    addresses: Mapping[str, int],
    *,
    skips_product: bool = False,
) -> Plan:
    """Makes the plan for checked arguments.

    `tactic` overrules the selection. `again` is the op with the call's options, for operands that need no
    copies. `addresses` holds the operands whose address is a multiple of less than `running.MOST_ALIGNED`,
    with what it is a multiple of. `skips_product`: the call's factor of the product is 0.
    """
    problem, family, names = arguments.problem, op.family, op.interface.names
    empty = any(getattr(problem, extent) == 0 for extent in op.interface.extents)
    if empty or skips_product:
        if tactic is not None:
            family.check_demand(context.registry, tactic, problem)
        if 0 in arguments.shape:
            return EmptyPlan(arguments, names)
        return TorchPlan(op, arguments, skips_product=not empty)
    assert arguments.device is not None
    device = context.device(arguments.device.index or 0)
    placement = op.place(context, arguments, device, addresses)
    if placement.copies:
        copied = ", ".join(sorted(placement.copies))
        log.warning("%s: copies %s, which no kernel takes as it lies", arguments.problem, copied)
    if placement.copies or placement.rearranged:
        return CopyingPlan(op, arguments, placement, again)
    if tactic is None and context.tuner is not None:
        context.tuner(family, placement.problem, device)
    alignments = functools.partial(op.alignments, placement.problem)
    bound = bind(
        context, family, placement.problem, device, tactic, interface=op.interface, alignments=alignments
    )
    return DirectPlan(arguments, bound, guarded=not addresses)


class TorchPlan(Plan):
    """Launches nothing: torch computes what the family says."""

    def __init__(self, op: Op, arguments: Arguments, *, skips_product: bool = False) -> None:
        """`skips_product`: there are sums to compute, and a factor of them is 0."""
        super().__init__(arguments, op.interface.names)
        self._op = op
        self.skips_product = skips_product

    def run(self, call: tuple[Any, ...]) -> None:
        self.check_tensors(call)
        self._op.without_kernel(self.arguments.problem, named(self._op, call))


class CopyingPlan(Plan):
    """Copies the operands whose layout no kernel supports, runs the op on the copies, and copies its results
    back.

    `again` is the op with the call's options, for a problem that needs no copies.
    """

    def __init__(self, op: Op, arguments: Arguments, placement: Placement, again: Callable[..., Any]) -> None:
        super().__init__(arguments, op.interface.names)
        self._op = op
        self._placement = placement
        self._again = again

    def run(self, call: tuple[Any, ...]) -> None:
        self.check_tensors(call)
        op, copies = self._op, self._placement.copies
        values = {name: value for name, value in named(op, call).items() if value is not None}
        written = [name for name in op.written if name in values]
        for name in written:
            twins = {operand.name for operand in op.interface.operands if operand.twin == name}
            read = {key: values[key] for key in self.operands if key in values and key != name}
            memory.check_aliasing(name, values[name], read, twins)
        used = op.copied(self.arguments, self._placement, values)
        answer = self._again(**{name: value for name, value in used.items() if name in op.names})
        results = dict(zip(written, answer if isinstance(answer, tuple) else (answer,), strict=True))
        for name in written:
            if name in copies:
                op.restored(self.arguments, name, values[name], results[name])


def named(op: Op, call: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of a launcher by name, without the workspace: operands, then numbers."""
    names = (*op.interface.names, *(number.name for number in op.interface.numbers))
    return dict(zip(names, call, strict=False))
