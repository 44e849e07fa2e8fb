"""Checks the arguments of `gemm` and reads from them what a plan depends on.

Everything here runs once for each combination of dtypes, shapes, strides and options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.ops.gemm import guards
from tilewright.ops.gemm.problem import ACTIVATIONS, BYTES, INTEGER_ACTIVATIONS, OUTPUTS, TMA_BYTES

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
_MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of a batch, as its tensor lies: extents and strides in elements."""

    name: str
    dtype: str
    batch: int
    rows: int
    columns: int
    batch_stride: int
    row_stride: int
    column_stride: int

    @classmethod
    def read(cls, name: str, dtype: str, tensor: torch.Tensor) -> Operand:
        shape, strides = tuple(tensor.shape), tensor.stride()
        if len(shape) not in (2, 3):
            raise ArgumentError(
                name, f"its shape is {_dims(shape)}; two dimensions, or three with a batch first, are wanted"
            )
        if max(shape) > _MAX_EXTENT:
            raise ArgumentError(name, f"its shape is {_dims(shape)}; at most {_MAX_EXTENT} is possible")
        batch, batch_stride = (shape[0], strides[0]) if len(shape) == 3 else (1, 0)
        return cls(name, dtype, batch, shape[-2], shape[-1], batch_stride, strides[-2], strides[-1])

    def misplaced(self, row_major: bool) -> str | None:
        """None where TMA can move the matrix with its rows (or its columns) contiguous, else the reason."""
        unit = TMA_BYTES // BYTES[self.dtype]
        inner, outer = (self.columns, self.rows) if row_major else (self.rows, self.columns)
        inner_stride, outer_stride = (
            (self.column_stride, self.row_stride) if row_major else (self.row_stride, self.column_stride)
        )
        given = f"shape [{self.rows}, {self.columns}] with strides ({self.row_stride}, {self.column_stride})"
        if inner > 1 and inner_stride != 1:
            return f"{given}: no contiguous {'rows' if row_major else 'columns'}"
        if inner % unit:
            return f"{given}: {inner} contiguous elements, not a multiple of {unit} ({TMA_BYTES} bytes)"
        if outer > 1 and outer_stride < inner:
            return f"{given}: {'rows' if row_major else 'columns'} overlap"
        if outer > 1 and outer_stride % unit:
            return (
                f"{given}: leading dimension {outer_stride} is not a multiple of {unit} ({TMA_BYTES} bytes)"
            )
        if self.batch > 1 and (self.batch_stride % unit or self.batch_stride < 0):
            return f"batch stride {self.batch_stride} is not a multiple of {unit} ({TMA_BYTES} bytes)"
        return None


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
    activation: str
    fast_accum: bool
    device: torch.device

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
) -> Arguments:
    """Raises ArgumentError or ArgumentTypeError for the first argument that is wrong.

    `alpha` and `beta` have gone through `guards.factor`.
    """
    for name, value in (("a", a), ("b", b)):
        _check_tensor(name, value)
    for name, optional in (
        ("out", out),
        ("c", c),
        ("scale_a", scale_a),
        ("scale_b", scale_b),
        ("bias", bias),
    ):
        if optional is not None:
            _check_tensor(name, optional)
    _check_devices(context, a, b=b, out=out, c=c, scale_a=scale_a, scale_b=scale_b, bias=bias)
    if torch.is_grad_enabled():
        guards.check_gradients(a, b, out, c, bias, scale_a, scale_b)
    dtypes = (_operand_name("a", a), _operand_name("b", b))
    if dtypes not in OUTPUTS:
        known = ", ".join(f"{x} x {y}" for x, y in OUTPUTS)
        raise ArgumentTypeError("b", f"a is {a.dtype} and b is {b.dtype}; one of {known} is wanted")
    d = _output_name(dtypes, out, out_dtype)
    left, right = Operand.read("a", dtypes[0], a), Operand.read("b", dtypes[1], b)
    if left.columns != right.rows:
        raise ArgumentError(
            "b",
            f"its shape is {_dims(b.shape)}, a's {_dims(a.shape)}; [k, n] with k = {left.columns} is wanted",
        )
    if 1 not in (left.batch, right.batch) and left.batch != right.batch:
        raise ArgumentError("b", f"its batch is {right.batch} and a's {left.batch}; equal ones are wanted")
    m, n, k = left.rows, right.columns, left.columns
    batch = right.batch if left.batch == 1 else left.batch
    shape = (batch, m, n) if 3 in (a.dim(), b.dim()) else (m, n)

    destination = None if out is None else _output("out", out, d, shape)
    addend = None if c is None else _output("c", c, d, shape)
    if beta != 0 and c is None:
        raise ArgumentError("c", f"it is None and beta is {beta}; pass c=out to add to what out holds")
    if bias is not None:
        _check_bias(bias, d, n)
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if scale is not None:
            _check_scale(name, scale, d)
    _check_activation(activation, d)
    guards.check_flag("fast_accum", fast_accum)
    if d == "s32":
        guards.check_integer_factors(alpha, beta)
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
        activation=str(activation),
        fast_accum=bool(fast_accum),
        device=a.device,
    )


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise ArgumentTypeError(name, f"it is a {type(value).__name__}; a torch.Tensor is wanted")
    if value.layout != torch.strided:
        raise ArgumentTypeError(name, f"its layout is {value.layout}; a strided tensor is wanted")


def _check_devices(context: Context, a: torch.Tensor, **others: torch.Tensor | None) -> None:
    if context.described is None and not a.is_cuda:
        raise ArgumentError("a", f"it is on {a.device}; a tensor on a CUDA device is wanted")
    for name, tensor in others.items():
        if tensor is not None and tensor.device != a.device:
            raise ArgumentError(name, f"it is on {tensor.device}, a on {a.device}; the same device is wanted")


def _operand_name(name: str, tensor: torch.Tensor) -> str:
    try:
        return OPERAND_NAMES[tensor.dtype]
    except KeyError:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in OPERAND_NAMES)
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
    allowed = [shape] if name == "out" else [shape, shape[-2:]]
    if tuple(tensor.shape) not in allowed:
        raise ArgumentError(name, f"its shape is {_dims(tensor.shape)}; {_dims(shape)} is wanted")
    operand = Operand.read(name, d, tensor)
    if tensor.numel() == 0:
        return operand
    if operand.columns > 1 and operand.column_stride != 1:
        raise ArgumentError(
            name, f"its strides are {tensor.stride()}; contiguous rows are wanted (the last stride is 1)"
        )
    if name == "out" and _overlaps_itself(tensor):
        raise ArgumentError(name, f"its strides are {tensor.stride()}: elements of it overlap")
    return operand


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether a stride does not lead beyond what the smaller strides reach. Dimensions come in any order."""
    reach = 0
    for step, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent > 1 and step <= reach:
            return True
        reach += (extent - 1) * step
    return False


def _check_bias(bias: torch.Tensor, d: str, n: int) -> None:
    if bias.dtype != OUTPUT_DTYPES[d] or tuple(bias.shape) != (n,):
        raise ArgumentError(
            "bias",
            f"it is {bias.dtype} {_dims(bias.shape)}; {OUTPUT_DTYPES[d]} [{n}], D's type, is wanted",
        )
    if n > 1 and bias.stride(0) != 1:
        raise ArgumentError("bias", f"its stride is {bias.stride(0)}; a contiguous vector is wanted")


def _check_scale(name: str, scale: torch.Tensor, d: str) -> None:
    if d == "s32":
        raise ArgumentError(name, "int8 operands take no scale; use alpha")
    if scale.dtype != torch.float32 or scale.numel() != 1:
        raise ArgumentError(
            name, f"it is {scale.dtype} {_dims(scale.shape)}; one float32 on the device of a is wanted"
        )


def _check_activation(activation: Any, d: str) -> None:
    known = INTEGER_ACTIVATIONS if d == "s32" else ACTIVATIONS
    if activation not in known:
        raise ArgumentError(
            "activation", f"it is {activation!r}; one of {', '.join(known)} is wanted for D of {d}"
        )


def _dims(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"
