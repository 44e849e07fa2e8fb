"""Prepared calls: for a fixed problem, all is decided once.

    plan = tilewright.plan(tilewright.gemm, a, b, out=out, bias=bias)
    plan(a, b, out)

The op is routed, its tactic selected, its kernel built and loaded when the plan is made. A call of the plan
launches: it checks that the operands lie as they did (in the binding, where that costs next to nothing) and
what the op checks of every call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import torch
from torch.autograd import forward_ad

from tilewright import context as contexts
from tilewright.calls import call_planning, checks
from tilewright.calls.custom_ops import needs_dispatcher
from tilewright.calls.emitting import compiled, prepared
from tilewright.calls.guards import dims, factor, refuse_derivatives, refuse_negated, what
from tilewright.calls.op import Op, Operands, Values
from tilewright.calls.plan import DirectPlan, Plan, UnplannedError
from tilewright.calls.planning import TorchPlan
from tilewright.declarations.matrices import layout_of
from tilewright.errors import ArgumentError, ArgumentTypeError, TilewrightError
from tilewright.libraries.library import MISALIGNED, MOST_OPERANDS, UNPLANNED, Launcher

P = ParamSpec("P")
R = TypeVar("R")


class Prepared:
    """What `plan` answers. Each op's has a `__call__` of its own (`_kind`), which is quick, and turns to
    `carefully` where a call is not the usual one or something is wrong.

    Holds the operands that a call does not pass (c, bias, scales), and none that it does. Safe under threads,
    streams and CUDA graphs, as the op is.
    """

    op: Op

    def __init__(self, plan: Plan, values: Values, operands: Operands) -> None:
        """`values`: a call's; `operands`: the launcher's, complete."""
        op = self.op
        self.plan = plan
        self.fills = plan.fills
        self.arguments = plan.arguments
        self.shape, self.strides = plan.shape, plan.strides
        self.dtype, self.device = plan.dtype, plan.device
        self.accumulates = values.get("c") is not None and values["c"] is values["out"]
        held = (*op.tensors, *op.numbers)
        self.kept = {name: values[name] for name in held if name not in op.passed}
        if self.accumulates:
            self.kept["c"] = None
        for name, value in self.kept.items():
            setattr(self, f"kept_{name}", value)
        self.needs_gradients = any(getattr(value, "requires_grad", False) for value in self.kept.values())
        self._options = {name: values[name] for name in values if name not in held}
        self._descriptions = tuple(map(_description, operands))
        self._layouts = tuple(map(layout_of, operands))
        self.launch: Launcher = self._launcher(operands)

    def __repr__(self) -> str:
        tactic = f", {self.plan.tactic}" if isinstance(self.plan, DirectPlan) else ""
        name = self.op.name
        return f"<plan of tilewright.{name}: {dims(self.shape)} {self.dtype} on {self.device}{tactic}>"

    def __copy__(self) -> Prepared:
        return self

    def __reduce__(self) -> NoReturn:
        message = "it cannot be pickled, or copied with what it holds, because it holds loaded code"
        raise ArgumentTypeError("plan", message, hint="Call tilewright.plan where the plan is used.")

    def check_made(self, changes: Mapping[str, Any]) -> None:
        """Raises where `out` may not be made: there would be nothing to add to."""
        if self.accumulates and "c" not in changes:
            raise ArgumentError("out", "it is None; the plan adds to it")

    def carefully(self, call: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
        """Launches with the operands in `call`, the kept ones, and `changes` in their place. Raises an error
        that says what is wrong."""
        op = self.op
        for name in changes:
            if name not in self.kept:
                names = ", ".join((*op.passed, *self.kept))
                raise ArgumentTypeError(name, f"not an argument of a plan's call; expected one of {names}")
        values = {**self.kept, **call, **changes}
        if self.accumulates and "c" not in changes:
            values["c"] = values["out"]
        values = op.with_factors(values)
        for name in op.numbers:
            values[name] = factor(name, values[name])
        self._check_read(values)
        tensors = {name: values[name] for name in op.tensors}
        refuse_negated(tensors)
        refuse_derivatives(op.name, **tensors)
        if self.plan.recheck is not None:
            self.plan.recheck(*(values[name] for name in op.numbers))
        operands = self._complete(values, changes)
        numbers = [({**op.constants, **values})[number.name] for number in op.interface.numbers]
        launch = self.launch
        if isinstance(self.plan, DirectPlan) and op.skips_product(values):
            torch_plan = TorchPlan(op, self.arguments, skips_product=True)
            launch = call_planning.on_device(torch_plan, functools.partial(self._run, torch_plan))
        try:
            status = launch(*operands, *numbers, None)
            if MISALIGNED >= status > MISALIGNED - MOST_OPERANDS:
                # The address may be that of a negated view, and is not: that was refused above.
                status = self._launcher(operands, guarded=False)(*operands, *numbers, None)
        except TilewrightError:
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError):
            self._explain(values, operands)
            raise
        if status:
            self._fail(status, values, operands)
        return self._answer(operands)

    def _check_read(self, values: Values) -> None:
        """Raises ArgumentError if a number says that an operand is read and the call has no such operand,
        because kernels look only at the number."""
        for operand in self.op.interface.operands:
            number = operand.unread_if_zero
            if number in self.op.numbers and values[number] != 0 and values[operand.name] is None:
                raise ArgumentError(
                    operand.name,
                    f"it is absent and {number} is {values[number]}; the plan is for {number} of 0",
                )
        if isinstance(self.plan, TorchPlan) and self.plan.skips_product and not self.op.skips_product(values):
            factors = self.op.product_factors
            name = next(name for name in factors if self.kept[name] == 0)
            raise ArgumentError(name, f"it is {values[name]}; the plan is for {name} of 0")

    def _complete(self, values: Values, changes: Values) -> Operands:
        operands = self.op.operands(values)
        if not self.fills:
            return operands
        arguments = self._check(values) if changes else self.arguments
        try:
            return self.op.fill(arguments, operands)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            self._check(values)
            raise

    def _check_operands(self, values: Values) -> None:
        """As `_check`, without results, which the call may have made."""
        self._check({**values, **dict.fromkeys(self.op.written)})

    def _check(self, values: Values) -> Any:
        return checks.check(self.op, contexts.current(), {**self._options, **values})

    def _answer(self, operands: Operands) -> Any:
        results = [operands[self.op.interface.names.index(name)] for name in self.op.written]
        results = [result for result in results if result is not None]
        return results[0] if len(results) == 1 else tuple(results)

    def _explain(self, values: Values, operands: Operands) -> None:
        """Raises a better error than the one of the binding, which is being handled."""
        self._check_operands(values)
        self._check(values)
        for name, tensor in zip(self.plan.operands, operands, strict=True):
            if needs_dispatcher(tensor):
                message = f"it is {what(tensor)}; expected an ordinary tensor with memory"
                raise ArgumentTypeError(name, message) from None

    def _launcher(self, operands: Operands, *, guarded: bool = True) -> Launcher:
        """The function that a call runs, with the arguments of a launcher. It is the launcher itself if a
        call needs only a launch."""
        plan = self.plan
        return (
            call_planning.launcher_of_plan(plan, operands, guarded=guarded)
            if isinstance(plan, DirectPlan)
            else call_planning.on_device(plan, functools.partial(self._run, plan))
        )

    def _run(self, plan: Plan, *call: Any) -> int:
        """Runs a plan that launches nothing. Checks the operands as the binding does for a launch."""
        for index, layout in enumerate(self._layouts):
            if needs_dispatcher(call[index]):
                raise UnplannedError(plan.operands[index])
            if layout_of(call[index]) != layout:
                return UNPLANNED - index
        plan.run(call[:-1])
        return 0

    def _fail(self, status: int, values: Values, operands: Operands) -> NoReturn:
        index = UNPLANNED - status
        if 0 <= index < len(operands):
            if (
                isinstance(self.plan, DirectPlan)
                and layout_of(operands[index])[:2] != self._layouts[index][:2]
            ):
                self._check_operands(values)  # the op may not take it at all
                if self.plan.operands[index] in self.op.written:
                    self._check(values)
            raise ArgumentError(
                self.plan.operands[index],
                f"it is {_description(operands[index])}; the plan is for {self._descriptions[index]}",
                hint=f"Make a plan for it with tilewright.plan, or call tilewright.{self.op.name}.",
            )
        assert isinstance(self.plan, DirectPlan)
        self.plan.fail(status)


def plan(op: Callable[P, R], /, *arguments: P.args, **options: P.kwargs) -> Callable[..., R]:
    """Prepares a call of an op, for operands that lie as the given ones do.

    Args:
        op: one of tilewright's ops: those that torch knows, too (`torch.ops.tilewright`).
        arguments, options: what the op takes, tensors included. They say which problem it is; nothing is
            launched. The kernel is built now if need be (with TILEWRIGHT_JIT=0: NotBuiltError); that of
            operands that are copied or padded, at the first call.

    Returns:
        A function that answers what the op answers: `plan(a, b, out=None, **replaced)`; of an op that
        quantises `plan(x, out=None, out_scales=None, **replaced)`, of one that reads back
        `plan(data, scales, out=None, **replaced)`. What a call passes has the shapes, strides, dtypes and
        device of what is given here; its address may be another. Operands that a call does not pass are those
        given here, unless it replaces them by keyword, with others of the same shapes, strides, dtypes and
        device; alpha, beta and eps can be replaced too. Where `c` is `out` here, each call adds to its own
        `out`.

    Raises:
        TilewrightError: what the op raises.
        ArgumentError: in a call: an operand is not as planned (the message says which, how it lies and how
            the planned one does), or its address is one that the kernel cannot read.
    """
    published, values = call_planning.bind_arguments(op, arguments, options)
    return cast("Callable[..., R]", _kind(published)(*call_planning.plan_call(published, values)))


@functools.cache
def _kind(op: Op) -> type[Prepared]:
    """The class of an op's prepared calls, with its `__call__` written out for its parameters."""
    scope: dict[str, Any] = {"_make": torch.empty_strided, "_fill": op.fill, "_forward_ad": forward_ad}
    return type("Prepared", (Prepared,), {"op": op, "__call__": compiled(op, prepared(op), scope)})


def _description(tensor: Any) -> str:
    if tensor is None:
        return "absent"
    if not isinstance(tensor, torch.Tensor):
        return what(tensor)
    strides = ", ".join(map(str, tensor.stride()))
    return f"{dims(tensor.shape)} with strides ({strides}) of {tensor.dtype} on {tensor.device}"
