"""The public op."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import ArgumentError
from tilewright.interface.op import Op, Values
from tilewright.interface.placement import Arguments, Placement
from tilewright.interface.publish import public
from tilewright.ops.common import custom_ops
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.interface import INTERFACE
from tilewright.ops.gemm.placement import place
from tilewright.ops.gemm.problem import Problem

# By name, as torch has them.
ACTIVATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


class _Gemm(Op):
    interface = INTERFACE
    family = FAMILY
    flops = staticmethod(custom_ops.flops)

    def rules(self, values: Values, problem: Problem) -> None:
        if problem.integer:
            for name in ("scale_a", "scale_b"):
                if values[name] is not None:
                    raise ArgumentError(name, "int8 operands take no scale; use alpha")
            check_integer_factors(values["alpha"], values["beta"])

    def recheck(self, problem: Problem) -> Callable[..., None] | None:
        return check_integer_factors if problem.integer else None

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        return place(context, arguments, device, addresses)

    def without_kernel(self, problem: Problem, given: Values) -> None:
        """activation(beta * C + bias), in the kernels' compute type: k is 0."""
        out, c, bias, beta = (given[name] for name in ("out", "c", "bias", "beta"))
        compute = torch.int32 if problem.integer else torch.float32
        value = torch.zeros_like(out, dtype=compute)
        if c is not None and beta != 0:
            value += c.to(compute) * (int(beta) if problem.integer else beta)
        if bias is not None:
            value += bias.to(compute)
        out.copy_(ACTIVATED[problem.activation](value))


def check_integer_factors(alpha: float, beta: float) -> None:
    """Integer kernels multiply by integers; floats hold those to 2**24 exactly."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not value.is_integer() or abs(value) > 2**24:  # infinity and NaN are no integers
            raise ArgumentError(name, f"it is {value}; int8 operands want an integer of at most 2**24")


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
