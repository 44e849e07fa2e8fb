"""A block-scaled call: what it is remembered by, its plan, its errors. The public ops are in `op`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as _modes
from torch.compiler import is_dynamo_compiling

from tilewright import context as contexts
from tilewright.errors import TilewrightError
from tilewright.ops.blockscaled_gemm import arguments as checking
from tilewright.ops.blockscaled_gemm import guards, planning, torch_op
from tilewright.ops.blockscaled_gemm.arguments import Op
from tilewright.ops.common import calls, custom_ops
from tilewright.ops.common.constants import constant
from tilewright.ops.common.formats import as_bytes
from tilewright.ops.common.guards import factor
from tilewright.ops.common.memory import check_aliasing
from tilewright.ops.common.plan import MisalignedError
from tilewright.ops.common.tactics import Tactic, parsed


def multiply(  # noqa: PLR0912, PLR0917 (a warm call in one piece: functions cost)
    op: Op,
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    beta: float,
    out_descale: torch.Tensor | None,
    out_global_scale: torch.Tensor | None,
    tactic: Tactic | str | None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    if is_dynamo_compiling() or _modes():  # torch has to see the call
        return torch_op.call(
            op, a, b, a_descale, b_descale, alpha, out_dtype, out, c, beta, out_descale, out_global_scale,
            tactic,
        )  # fmt: skip
    context = contexts.current()
    plan: Any
    if type(beta) is not float:
        beta = factor("beta", beta)
    try:
        key = (
            op.name,
            type(a),
            a.dtype,
            a.shape,
            a.stride(),
            type(b),
            b.dtype,
            b.shape,
            b.stride(),
            a.get_device(),
            type(a_descale),
            a_descale.dtype,  # the binding checks what else there is of scales and alpha
            type(b_descale),
            b_descale.dtype,
            alpha is None or (type(alpha), alpha.dtype),
            out_dtype,
            None if out is None else (type(out), out.dtype, out.shape, out.stride()),
            None
            if c is None and out_descale is None and out_global_scale is None
            else (calls.outline(c), calls.outline(out_descale), calls.outline(out_global_scale)),
            beta == 0,
            tactic,
        )
        plan = context.plans.get(key)
    except (AttributeError, TypeError, RuntimeError):
        key, plan = None, None  # not tensors, or not ordinary ones: the checks say what is wrong
    if plan is None:
        if custom_ops.special(a, b, a_descale, b_descale, alpha, out, c, out_descale, out_global_scale):
            return torch_op.call(
                op, a, b, a_descale, b_descale, alpha, out_dtype, out, c, beta, out_descale,
                out_global_scale, tactic,
            )  # fmt: skip
        arguments = checking.check(
            context, op, a, b, a_descale, b_descale, alpha, out_dtype, out, c, beta, out_descale,
            out_global_scale,
        )  # fmt: skip
        plan = planning.make(context, arguments, parsed(tactic), functools.partial(multiply, op))
        if key is not None:
            context.remember(key, plan)
    else:  # what the key leaves out of the checks
        plan.used = True
        if torch.is_grad_enabled():
            guards.check_gradients(op.name, a, b, alpha, out, c, out_global_scale)
    if beta == 0:
        c = None
    given, given_descale = out, out_descale
    if out is None:
        out = torch.empty_strided(plan.shape, plan.strides, dtype=plan.dtype, device=plan.device)
    if plan.arguments.descale:
        if out_descale is not None:
            check_aliasing(
                out_descale, "out_descale", a=a, b=b, a_descale=a_descale, b_descale=b_descale, c=c, out=out
            )
        out_descale, out_global_scale = quantisation(plan.arguments, out_descale, out_global_scale)
    call = (a, b, a_descale, b_descale, c, out, out_descale, alpha, out_global_scale, beta)
    try:
        if (launch := plan.quick) is not None:
            status = launch(*call, None)
            if status:
                plan.fail(status)
        elif calls.several_devices() and calls.elsewhere(a):
            calls.run_there(plan, call)
        else:
            plan.run(call)
    except MisalignedError:
        make = functools.partial(
            planning.make, context, plan.arguments, parsed(tactic), functools.partial(multiply, op)
        )
        lie = calls.addresses(plan.tensors(call))
        calls.run_there(calls.for_addresses(context, op.name, key, lie, make), call)
    except TilewrightError:
        raise
    except (RuntimeError, TypeError, ValueError):
        if custom_ops.special(a, b, a_descale, b_descale, alpha, given, c, out_global_scale):
            return torch_op.call(  # what functorch wraps looks ordinary
                op, a, b, a_descale, b_descale, alpha, out_dtype, given, c, beta, given_descale,
                out_global_scale, tactic,
            )  # fmt: skip
        # The binding sees what the key leaves out, as the devices of b and out; the checks say it better.
        checking.check(
            context, op, a, b, a_descale, b_descale, alpha, out_dtype, out, c, beta, out_descale,
            out_global_scale,
        )  # fmt: skip
        raise
    return out if out_descale is None else (out, out_descale)


def quantisation(
    arguments: checking.Arguments, out_descale: torch.Tensor | None, out_global_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale factors that a quantised D is to have, their padding zeroed, and the global scale."""
    if out_descale is None:
        make = torch.zeros if arguments.descale_is_padded else torch.empty
        made = make(arguments.descale, dtype=torch.uint8, device=arguments.device)
        out_descale = made.view(arguments.descale_dtype)
    elif arguments.descale_is_padded:
        as_bytes(out_descale).zero_()
    return out_descale, constant(1.0, arguments.device) if out_global_scale is None else out_global_scale
