"""Checks the arguments of `gemm` and reads from them what a plan depends on.

Everything here runs once for each combination of dtypes, shapes, strides and options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.ops.common import guards
from tilewright.ops.common.guards import dims
from tilewright.ops.common.operands import Operand, product_shape, read_output
from tilewright.ops.common.symbolic import certainly, differ
from tilewright.ops.gemm.problem import ACTIVATIONS, INTEGER_ACTIVATIONS, OUTPUTS

OPERAND_NAMES = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.float32: "tf32",
    torch.int8: "s8",
}
OUTPUT_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "s32": torch.int32}
_OUTPUT_NAMES = {dtype: name for name, dtype in OUTPUT_DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments: types, shapes and devices are right; alignment is not judged yet."""

    a: Operand
    b: Operand
    c: Operand | None
    out: Operand | None
    bias: bool
    m: int
    n: int
    k: int
    shape: tuple[int, ...]  # of D
    d: str
    dtype: torch.dtype  # of D
    activation: str
    fast_accum: bool
    device: torch.device
    integer: bool  # D, and the factors

    @property
    def batch(self) -> int:
        return self.shape[0] if len(self.shape) == 3 else 1


def check(
    context: Context,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    c: torch.Tensor | None,
    alpha: float,
    beta: float,
    scale_a: torch.Tensor | None,
    scale_b: torch.Tensor | None,
    bias: torch.Tensor | None,
    activation: str,
    fast_accum: bool,
    fake: bool = False,
) -> Arguments:
    """Raises ArgumentError or ArgumentTypeError for the first argument that is wrong.

    `alpha` and `beta` have gone through `common.guards.factor`. `fake`: tensors may be on the meta device.
    """
    guards.check_tensors(
        context, a, fake=fake, b=b, out=out, c=c, scale_a=scale_a, scale_b=scale_b, bias=bias
    )
    if torch.is_grad_enabled():
        guards.refuse_gradients("gemm", a=a, b=b, out=out, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b)
    dtypes = (_operand_name("a", a), _operand_name("b", b))
    if dtypes not in OUTPUTS:
        known = ", ".join(f"{x} x {y}" for x, y in OUTPUTS)
        raise ArgumentTypeError("b", f"a is {a.dtype} and b is {b.dtype}; one of {known} is wanted")
    d = _output_name(dtypes, out, out_dtype)
    left, right = Operand.read("a", dtypes[0], a), Operand.read("b", dtypes[1], b)
    if certainly(left.columns != right.rows):
        raise ArgumentError(
            "b",
            f"its shape is {dims(b.shape)}, a's {dims(a.shape)}; [k, n] with k = {left.columns} is wanted",
        )
    m, n, k = left.rows, right.columns, left.columns
    shape = product_shape(a, b, m, n)

    destination = None if out is None else _output("out", out, d, shape)
    addend = None if c is None else _output("c", c, d, shape)
    if beta != 0 and c is None:
        raise ArgumentError("c", f"it is None and beta is {beta}; pass c=out to add to what out holds")
    if bias is not None:
        _check_bias(bias, d, n)
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if scale is not None:
            if d == "s32":
                raise ArgumentError(name, "int8 operands take no scale; use alpha")
            guards.check_scalar(name, scale)
    _check_activation(activation, d)
    guards.check_flag("fast_accum", fast_accum)
    if d == "s32":
        check_integer_factors(alpha, beta)
    return Arguments(
        a=left,
        b=right,
        c=addend if beta != 0 else None,
        out=destination,
        bias=bias is not None,
        m=m,
        n=n,
        k=k,
        shape=shape,
        d=d,
        dtype=OUTPUT_DTYPES[d],
        activation=str(activation),
        fast_accum=bool(fast_accum),
        device=a.device,
        integer=d == "s32",
    )


def _operand_name(name: str, tensor: torch.Tensor) -> str:
    try:
        return OPERAND_NAMES[tensor.dtype]
    except KeyError:
        known = guards.dtypes(OPERAND_NAMES)
        raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}; one of {known} is wanted") from None


def _output_name(dtypes: tuple[str, str], out: torch.Tensor | None, out_dtype: torch.dtype | None) -> str:
    possible = OUTPUTS[dtypes]
    wanted = (
        f"{' or '.join(str(OUTPUT_DTYPES[name]) for name in possible)} is wanted for {' x '.join(dtypes)}"
    )
    if out is not None:
        if out_dtype is not None and out_dtype != out.dtype:
            raise ArgumentTypeError("out_dtype", f"it is {out_dtype} and out is {out.dtype}")
        if _OUTPUT_NAMES.get(out.dtype) not in possible:
            raise ArgumentTypeError("out", f"its dtype is {out.dtype}; {wanted}")
        return _OUTPUT_NAMES[out.dtype]
    if out_dtype is None:
        return possible[0]
    if _OUTPUT_NAMES.get(out_dtype) not in possible:
        raise ArgumentTypeError("out_dtype", f"it is {out_dtype}; {wanted}")
    return _OUTPUT_NAMES[out_dtype]


def _output(name: str, tensor: torch.Tensor, d: str, shape: tuple[int, ...]) -> Operand:
    if tensor.dtype != OUTPUT_DTYPES[d]:
        raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}; {OUTPUT_DTYPES[d]}, D's type, is wanted")
    return read_output(name, d, tensor, shape)


def _check_bias(bias: torch.Tensor, d: str, n: int) -> None:
    if bias.dtype != OUTPUT_DTYPES[d] or differ(bias.shape, (n,)):
        raise ArgumentError(
            "bias",
            f"it is {bias.dtype} {dims(bias.shape)}; {OUTPUT_DTYPES[d]} [{n}], D's type, is wanted",
        )
    if certainly(n > 1) and certainly(bias.stride(0) != 1):
        raise ArgumentError("bias", f"its stride is {bias.stride(0)}; a contiguous vector is wanted")


def _check_activation(activation: Any, d: str) -> None:
    known = INTEGER_ACTIVATIONS if d == "s32" else ACTIVATIONS
    if activation not in known:
        raise ArgumentError(
            "activation", f"it is {activation!r}; one of {', '.join(known)} is wanted for D of {d}"
        )


def check_integer_factors(alpha: float, beta: float) -> None:
    """Integer kernels multiply by integers; floats hold those to 2**24 exactly."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not value.is_integer() or abs(value) > 2**24:  # infinity and NaN are no integers
            raise ArgumentError(name, f"it is {value}; int8 operands want an integer of at most 2**24")
