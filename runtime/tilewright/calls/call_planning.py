"""Plans a call ahead of time: for a prepared call, and for the fast path of what calls an op."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright import context as contexts
from tilewright.calls import checks, protocol
from tilewright.calls.custom_ops import needs_dispatcher
from tilewright.calls.gpus import several_devices
from tilewright.calls.guards import factor
from tilewright.calls.op import Op, Operands, Values
from tilewright.calls.plan import DirectPlan, Plan
from tilewright.calls.publish import published
from tilewright.calls.running import addresses
from tilewright.errors import ArgumentTypeError
from tilewright.libraries.library import Launcher


def launcher_of_call(
    op: Callable[..., Any], passed: Mapping[str, Any], /, *arguments: Any, **options: Any
) -> Launcher | None:
    """The launcher of an op's call whose arguments are views of a caller's own tensors.

    It takes what the caller passes, and None. `passed` says what that is, by the names of the op's operands
    and numbers, in the caller's order, operands first; and how tensors lie. A view has the same first element
    as its tensor. Other operands the call has not, other numbers are always its own. None where the call is
    more than a launch, where an address is aligned to less than most are, or where a tensor has none (a fake
    one, say).
    """
    published_op, values = bind_arguments(op, arguments, options)
    tensors = {name: passed[name] for name in published_op.interface.names if name in passed}
    if needs_dispatcher(*tensors.values()):
        return None
    plan, complete, operands = plan_call(published_op, values)
    # The addresses of matrices decide which kernel runs; what is loaded by single elements may lie anywhere.
    matrices = {
        matrix.name: tensor
        for matrix in published_op.interface.matrices.values()
        if (tensor := tensors.get(matrix.name)) is not None and matrix.alignment != tensor.element_size()
    }
    if not isinstance(plan, DirectPlan) or plan.fills or plan.recheck is not None or addresses(matrices):
        return None
    return launcher_of_plan(plan, operands, passed, {name: complete[name] for name in published_op.numbers})


def bind_arguments(
    op: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Op, dict[str, Any]]:
    """The op, and a call's values by name. Raises ArgumentTypeError, TypeError."""
    published_op = published.get(op)
    if published_op is None:
        name = getattr(op, "__name__", repr(op))
        message = f"expected an op of tilewright, such as tilewright.gemm, got {name}"
        hint = None
        if str(getattr(op, "__module__", "")).startswith("tilewright."):
            message = f"tilewright.{name} has no plan"
            hint = f"Plan an op. If tilewright.{name} calls ops, help(tilewright.{name}) names them."
        raise ArgumentTypeError("op", message, hint=hint)
    try:
        bound = inspect.signature(op).bind(*arguments, **options)
    except TypeError as error:
        raise TypeError(f"tilewright.{published_op.name}: {error}") from None
    bound.apply_defaults()
    return published_op, dict(bound.arguments)


def plan_call(op: Op, values: dict[str, Any]) -> tuple[Plan, Values, Operands]:
    """The plan of a call, its values with a tensor for `out`, and the launcher's operands, complete."""
    context = contexts.current()
    values = op.with_factors(values)
    for name in op.numbers:
        values[name] = factor(name, values[name])
    arguments = checks.check(op, context, values)
    for operand in op.interface.operands:
        if operand.unread_if_zero in op.numbers and values[operand.unread_if_zero] == 0:
            values[operand.name] = None
    complete = dict(values)
    if complete["out"] is None:
        complete["out"] = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
    # What else the call writes is made here, so that the plan can look at it; what is given stays as it is.
    brought = {name: complete[name] for name in op.written if name != "out" and complete[name] is not None}
    operands = op.operands({**complete, **dict.fromkeys(brought)})
    if op.fills(arguments):
        operands = op.fill(arguments, operands)
    launched = {**dict(zip(op.interface.names, operands, strict=True)), **brought}
    alignments = addresses({name: tensor for name, tensor in launched.items() if tensor is not None})
    plan = protocol.plan_checked(op, context, arguments, values, alignments)
    operands = tuple(launched.values()) if plan.fills else op.operands(complete)
    return plan, complete | {name: values[name] for name in op.written if name != "out"}, operands


def launcher_of_plan(
    plan: DirectPlan,
    operands: Operands,
    passed: Mapping[str, Any] | None = None,
    numbers: Mapping[str, float] | None = None,
    *,
    guarded: bool = True,
) -> Launcher:
    """What launches a plan on its GPU, with a workspace where it needs one; see `Launch.launcher`."""
    bound = launch = plan.bound.launcher(operands, passed, numbers, guarded=guarded)
    if plan.workspace_bytes:
        make = plan.workspace
        launch = lambda *call: bound(*call[:-1], make())  # noqa: E731
    return on_device(plan, launch)


def on_device(plan: Plan, launch: Launcher) -> Launcher:
    """`launch`, on the plan's GPU, whichever is current."""
    if plan.device.type != "cuda" or not several_devices():
        return launch
    index = plan.device.index

    def launched(*call: Any) -> int:
        if torch.cuda.current_device() == index:
            return launch(*call)
        with torch.cuda.device(index):
            return launch(*call)

    return launched
