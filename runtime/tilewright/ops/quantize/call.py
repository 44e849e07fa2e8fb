"""A quantising call, or one that reads back: what it is remembered by, its plan, its errors."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as _modes
from torch.compiler import is_dynamo_compiling

from tilewright import blockwise_scales
from tilewright import context as contexts
from tilewright.errors import ArgumentError, TilewrightError
from tilewright.ops.common import calls, custom_ops
from tilewright.ops.common.calls import outline
from tilewright.ops.common.constants import constant
from tilewright.ops.common.guards import factor
from tilewright.ops.common.plan import MisalignedError
from tilewright.ops.common.tactics import Tactic, parsed
from tilewright.ops.quantize import arguments as checking
from tilewright.ops.quantize import planning, torch_op
from tilewright.ops.quantize.arguments import Arguments, Request
from tilewright.ops.quantize.problem import M_MAJOR


def carry_out(  # noqa: PLR0912, PLR0917 (a warm call in one piece; arguments as the launcher takes them)
    request: Request,
    x: Any,
    weight: Any,
    global_scale: Any,
    rows_valid: Any,
    data: Any,
    scales: Any,
    epsilon: float,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs a request and answers x, data and scales; those that are written are made where they are None."""
    if is_dynamo_compiling() or _modes():  # torch has to see the call
        return torch_op.call(request, x, weight, global_scale, rows_valid, data, scales, epsilon, tactic)
    context = contexts.current()
    if type(epsilon) is not float:
        epsilon = factor("eps", epsilon)
    first = x if request.direction == "quantize" else data
    try:
        key = (
            request,
            outline(x),
            outline(data),
            outline(scales),
            None
            if weight is None and global_scale is None and rows_valid is None
            else (
                outline(weight),
                outline(global_scale) if isinstance(global_scale, torch.Tensor) else type(global_scale),
                outline(rows_valid),
            ),
            tactic,
        )
        plan = context.plans.get(key)
    except (AttributeError, TypeError, RuntimeError):
        key, plan = None, None  # not tensors, or not ordinary ones: the checks say what is wrong
    if plan is None:
        if custom_ops.special(x, weight, global_scale, rows_valid, data, scales):
            return torch_op.call(request, x, weight, global_scale, rows_valid, data, scales, epsilon, tactic)
        arguments = checking.check(context, request, x, weight, global_scale, rows_valid, data, scales)
        plan = planning.make(context, arguments, parsed(tactic), carry_out)
        if key is not None:
            context.remember(key, plan)
    else:  # what the key leaves out of the checks
        plan.used = True
        if torch.is_grad_enabled():
            checking.check_gradients(request, x, weight, global_scale, rows_valid, data, scales)
        if scales is not None and request.quantizes and plan.arguments.layout in M_MAJOR:
            blockwise_scales.with_padding(scales, "out_scales")  # memory for it: else it would be overrun
    arguments = plan.arguments
    made = (
        torch.empty(plan.shape, dtype=plan.dtype, device=plan.device) if x is None or data is None else None
    )
    call = (
        made if x is None else x,
        weight,
        global_scale if global_scale is None or arguments.scale_lies else on_device(global_scale, arguments),
        rows_valid,
        made if data is None else data,
        arguments.new_scales() if scales is None else scales,
        epsilon,
    )
    try:
        if calls.several_devices() and calls.elsewhere(first):
            calls.run_there(plan, call)
        else:
            plan.run(call)
    except MisalignedError:
        make = functools.partial(planning.make, context, arguments, parsed(tactic), carry_out)
        lie = calls.addresses(plan.tensors(call))
        calls.run_there(calls.for_addresses(context, request.op, key, lie, make), call)
    except TilewrightError:
        raise
    except (RuntimeError, TypeError, ValueError):
        if custom_ops.special(x, weight, global_scale, rows_valid, data, scales):  # wrapped by functorch
            return torch_op.call(request, x, weight, global_scale, rows_valid, data, scales, epsilon, tactic)
        # The binding sees what the key leaves out; the checks say it better.
        checking.check(context, request, x, weight, global_scale, rows_valid, data, scales)
        raise
    return call[0], call[4], call[5]


def on_device(given: Any, arguments: Arguments) -> torch.Tensor:
    """A global scale as kernels read it: on the device, one for the tensor or one for each row.

    A number, or a tensor of one on the CPU, becomes a constant of the device, which is kept; other tensors
    are copied without waiting. One for each group is repeated for its rows.
    """
    device = arguments.device
    if not isinstance(given, torch.Tensor):
        return constant(factor("global_scale", given), device)
    if given.device != device or given.dtype != torch.float32:
        if given.is_meta:
            raise ArgumentError("global_scale", "it is on meta; a tensor with memory is wanted")
        if given.device.type == "cpu" and given.numel() == 1:
            return constant(float(given), device)
        given = given.to(device, non_blocking=True)
    if arguments.global_scale == "group":
        return given.reshape(-1, 1).expand(arguments.groups, arguments.m).contiguous()
    return given


torch_op.register(carry_out)
