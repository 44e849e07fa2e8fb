"""The public op."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as _modes
from torch.compiler import is_dynamo_compiling

from tilewright import context as contexts
from tilewright.context import Context
from tilewright.errors import TilewrightError
from tilewright.ops.common import calls, custom_ops
from tilewright.ops.common.guards import factor
from tilewright.ops.common.plan import MisalignedError
from tilewright.ops.common.tactics import Tactic, parsed
from tilewright.ops.gemm import arguments as checking
from tilewright.ops.gemm import guards, planning, torch_op


def gemm(  # noqa: PLR0912 (a warm call in one piece: functions cost)
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """activation(alpha * scale_a * scale_b * (a @ b) + beta * c + bias), on the current stream.

    Args:
        a: [m, k], or [batch, m, k]. bfloat16, float16, float8_e4m3fn, float8_e5m2, float32 (computed as
            TF32) or int8. Row-major or column-major; strides decide, not names.
        b: [k, n], or [batch, k, n]; of a's dtype (e5m2 with e4m3). A matrix without batch, or a batch
            stride of 0, serves every batch. Operands that are not of 16 bits have k contiguous.
        out: [m, n] or [batch, m, n], rows contiguous, in a wider tensor too; made if absent. It may be c,
            and overlaps nothing else.
        out_dtype: D's type where `out` is absent; the operands' own (FP8: bfloat16, int8: int32) by default.
        c: D's type and shape, or one [m, n] for every batch; read if beta is not 0.
        alpha, beta: factors; integers for int8.
        scale_a, scale_b: one float32 each on the device: read when the kernel runs.
        bias: [n], of D's type, contiguous; copied where its address is not a multiple of 16 bytes.
        activation: none, relu, gelu (erf) or silu; applied last.
        fast_accum: lets FP8 sums stay in the tensor core, which keeps about 14 bits of them.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m, n or the batch is 0; beta * c (+ bias, activation) where k is 0.

    Raises:
        ArgumentError: an argument is wrong; it says which, what was given and what is wanted.
        AlignmentError: 8-bit operands that TMA cannot read, or their c or out. Others are copied, as a
            bias is in any case, which the log says.
        UnsupportedDeviceError: no kernel runs on this GPU.
        NoKernelError: no kernel computes this problem.
        NotBuiltError: the kernel is not built, and TILEWRIGHT_JIT=0.
    """
    if is_dynamo_compiling() or _modes():  # torch has to see the call
        return torch_op.call(
            a, b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b,
            bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic,
        )  # fmt: skip
    context = contexts.current()
    if type(alpha) is not float:
        alpha = factor("alpha", alpha)
    if type(beta) is not float:
        beta = factor("beta", beta)
    try:
        others = (
            None
            if c is None and bias is None and scale_a is None and scale_b is None
            else (calls.outline(c), calls.outline(bias), calls.outline(scale_a), calls.outline(scale_b))
        )
        key = (
            "gemm",
            type(a),
            a.dtype,
            a.shape,
            a.stride(),
            type(b),
            b.dtype,
            b.shape,
            b.stride(),
            a.get_device(),
            out_dtype if out is None else (type(out), out.dtype, out.shape, out.stride()),
            others,
            beta == 0,
            activation,
            fast_accum,
            tactic,
        )
        plan = context.plans.get(key)
    except (AttributeError, TypeError, RuntimeError):
        key, plan = None, None  # not tensors, or not ordinary ones: the checks say what is wrong
    if plan is None:
        if custom_ops.special(a, b, out, c, bias, scale_a, scale_b):
            return torch_op.call(
                a, b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a,
                scale_b=scale_b, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic,
            )  # fmt: skip
        plan = _make_plan(
            context, key, tactic, a, b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta,
            scale_a=scale_a, scale_b=scale_b, bias=bias, activation=activation, fast_accum=fast_accum,
        )  # fmt: skip
    else:  # what the key leaves out of the checks
        plan.used = True
        some = a.requires_grad or b.requires_grad or (out is not None and out.requires_grad)
        if (some or others is not None) and torch.is_grad_enabled():
            guards.check_gradients(a, b, out, c, bias, scale_a, scale_b)
        if plan.arguments.integer:
            guards.check_integer_factors(alpha, beta)
    if beta == 0:
        c = None
    result = out
    if result is None:
        result = torch.empty_strided(plan.shape, plan.strides, dtype=plan.dtype, device=plan.device)
    try:
        if (launch := plan.quick) is not None:
            if (status := launch(a, b, c, result, bias, scale_a, scale_b, alpha, beta, None)) == 0:
                return result
            plan.fail(status)
        call = (a, b, c, result, bias, scale_a, scale_b, alpha, beta)
        if calls.several_devices() and calls.elsewhere(a):
            calls.run_there(plan, call)
        else:
            plan.run(call)
    except MisalignedError:
        call = (a, b, c, result, bias, scale_a, scale_b, alpha, beta)
        make = functools.partial(planning.make, context, plan.arguments, parsed(tactic), gemm)
        lie = calls.addresses(plan.tensors(call))
        calls.run_there(calls.for_addresses(context, "gemm", key, lie, make), call)
    except TilewrightError:
        raise
    except (RuntimeError, TypeError, ValueError):
        if custom_ops.special(a, b, out, c, bias, scale_a, scale_b):  # what functorch wraps looks ordinary
            return torch_op.call(
                a, b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a,
                scale_b=scale_b, bias=bias, activation=activation, fast_accum=fast_accum, tactic=tactic,
            )  # fmt: skip
        # The binding sees what the key leaves out, as the devices of b and out; the checks say it better.
        checking.check(
            context, a, b, out=out, out_dtype=out_dtype, c=c, alpha=alpha, beta=beta, scale_a=scale_a,
            scale_b=scale_b, bias=bias, activation=activation, fast_accum=fast_accum,
        )  # fmt: skip
        raise
    return result


def _make_plan(
    context: Context, key: Any, tactic: Tactic | str | None, a: Any, b: Any, **options: Any
) -> Any:
    arguments = checking.check(context, a, b, **options)
    plan = planning.make(context, arguments, parsed(tactic), gemm)
    if key is not None:
        context.remember(key, plan)
    return plan


torch_op.register(gemm)
