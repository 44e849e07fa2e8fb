"""The public op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.context import Context
from tilewright.interface.op import Op, Values
from tilewright.interface.publish import public
from tilewright.ops.common import custom_ops
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import arguments as checking
from tilewright.ops.gemm import planning
from tilewright.ops.gemm.interface import INTERFACE


class _Gemm(Op):
    interface = INTERFACE
    flops = staticmethod(custom_ops.flops)

    def check(self, context: Context, values: Values, *, fake: bool = False) -> checking.Arguments:
        given = {name: value for name, value in values.items() if name != "tactic"}
        return checking.check(context, **given, fake=fake)

    def plan(
        self,
        context: Context,
        arguments: checking.Arguments,
        tactic: Tactic | None,
        again: Callable[..., Any],
        addresses: frozenset[tuple[str, int]] = frozenset(),
    ) -> Plan:
        plan = planning.make(context, arguments, tactic, again, addresses)
        if arguments.integer:
            plan.recheck = checking.check_integer_factors
        return plan


@public(_Gemm())
def gemm(
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
    raise AssertionError("the body is `interface.calls`'s")
