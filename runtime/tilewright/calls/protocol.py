"""The protocol of a call, the same for every op.

Does torch have to see the call? What plan is remembered for such types, shapes, strides and options? What of
the checks is not in its key? What is to be made? Launch; where the kernel cannot read an address, plan again
for the addresses; where the binding refuses, let the checks say why.

`calls.emitting` writes the Python of this protocol out for each op's parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _len_torch_dispatch_stack as modes
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from tilewright import context as contexts
from tilewright.calls import checks, custom_ops, emitting, gpus, planning, registered, running
from tilewright.calls.docstrings import completed
from tilewright.calls.guards import (
    factor,
    key_of_integers,
    refuse_negated,
    refuse_tangents,
    refuse_unusual,
)
from tilewright.calls.plan import DirectPlan, MisalignedError, Plan
from tilewright.declarations.tactics import parsed
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.calls.op import Op, Values
    from tilewright.context import Context


def eager(op: Op, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with a body."""
    scope: dict[str, Any] = {
        "_tracing": is_dynamo_compiling, "_modes": modes, "_current": contexts.current,
        "_factor": factor, "_layout_key": running.layout_key, "_first": functools.partial(_first, op),
        "_grad": torch.is_grad_enabled, "_refuse": functools.partial(refuse_unusual, op.name),
        "_key_of_integers": key_of_integers, "_forward_ad": forward_ad, "_fill": op.fill,
        "_refuse_tangents": functools.partial(refuse_tangents, op.name),
        "_make": torch.empty_strided, "_several": gpus.several_devices, "_elsewhere": gpus.on_other_device,
        "_cache_launcher": _cache_launcher, "_run_on_its_device": running.run_on_its_device,
        "_realign": functools.partial(_realign, op), "_Misaligned": MisalignedError,
        "_Ours": TilewrightError, "_Tensor": torch.Tensor, "_recover": functools.partial(_recover, op),
        "_traced": functools.partial(registered.traced, op),
    }  # fmt: skip
    call: Callable[..., Any] = functools.wraps(function)(emitting.compiled(op, emitting.eager(op), scope))
    call.__doc__ = completed(function.__doc__)
    return call


def _cache_launcher(context: Context, key: Any, plan: DirectPlan) -> None:
    plan.cached = context.launchers(key, plan)
    plan.cached.add(plan.quick, plan.bound.library)
    # Launchers of one key may belong to plans with and without a check (types are in no key that has `out`).
    # A call that another plan's check refuses finds its own plan by the plan's key.
    plan.cached.recheck = plan.cached.recheck or plan.recheck


def _first(op: Op, context: Context, key: Any, values: Values) -> Plan | None:
    """The plan of a call for which none is remembered; None if torch must see the call."""
    if custom_ops.needs_dispatcher(*(values[name] for name in op.tensors)):
        return None
    for name in op.numbers:  # of floats, too, which a warm call leaves to the launcher
        factor(name, values[name])
    new = plan_checked(op, context, checks.check(op, context, values), values)
    if key is not None:
        context.remember(key, new)
    return new


def plan_checked(
    op: Op,
    context: Context,
    arguments: Any,
    values: Values,
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a call whose arguments are checked."""
    options = op.options(values)
    if "out_dtype" in options:
        options["out_dtype"] = arguments.dtype
    again = functools.partial(op.function, **options)
    tactic, skips_product = parsed(values["tactic"]), op.skips_product(values)
    new = planning.make(op, context, arguments, tactic, again, dict(addresses), skips_product=skips_product)
    new.recheck = op.recheck(arguments.problem)
    new.fills = op.fills(arguments)
    return new


def _realign(  # noqa: PLR0917 (a call's state)
    op: Op, context: Context, key: Any, first: Plan, values: Values, call: tuple[Any, ...]
) -> None:
    """Carries out a call whose addresses the planned kernel cannot read, or may be those of negated views."""
    refuse_negated(values)
    lie = running.addresses(first.tensors(call))
    aligned = running.for_addresses(
        context, op.name, key, lie, lambda lie: plan_checked(op, context, first.arguments, values, lie)
    )
    running.run_on_its_device(aligned, call)


def _recover(op: Op, context: Context, values: dict[str, Any], results: Any) -> Any:
    """Handles an error of the binding, which is the current exception.

    The binding checks what a plan's key leaves out, such as the devices of most operands. The checks raise a
    better message. Tensors that functorch wraps look ordinary until the binding sees them.
    """
    values.update({op.written[0]: results} if len(op.written) == 1 else zip(op.written, results, strict=True))
    if custom_ops.needs_dispatcher(*(values[name] for name in op.tensors)):
        return registered.traced(op, values)
    checks.check(op, context, values)
    raise  # noqa: PLE0704 (what is being handled)
