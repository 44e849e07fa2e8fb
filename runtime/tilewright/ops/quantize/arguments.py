"""Checks the arguments of the quantising ops and reads from them what a plan depends on.

Everything here runs once for each combination of dtypes, shapes, strides and options. Messages name the
arguments as the ops do: what a quantising op writes is `out` and `out_scales`, what the other reads is `data`
and `scales`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch

from tilewright import row_shuffle
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.interface.matrices import alignment_of
from tilewright.ops.common import guards
from tilewright.ops.common.guards import dims
from tilewright.ops.common.operands import Operand, read_output
from tilewright.ops.quantize.interface import interface
from tilewright.ops.quantize.problem import (
    DATA_BITS,
    FUSIONS,
    LAYOUTS,
    MOST_ALIGNED,
    X_BITS,
    Alignment,
    scale_shape,
)
from tilewright.ops.quantize.side_operands import (
    check_global_scale,
    check_rows_valid,
    check_scales,
    check_weight,
    layout_of,
    make_scales,
    scales_dtype,
    scales_lie,
)

X_NAMES = {
    torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.float8_e4m3fn: "e4m3",
}  # fmt: skip
RESULTS = [dtype for dtype, name in X_NAMES.items() if name != "e4m3"]  # of reading back
_FP4 = torch.float4_e2m1fn_x2
DATA_DTYPES = {"mxfp8_e5m2": torch.float8_e5m2}  # of FP8 that is not E4M3
_ROW_MAJOR = "contiguous rows are wanted (the last stride is 1)"


class Request(NamedTuple):
    """What a call asks beside its tensors: a part of its plan's key."""

    op: str
    direction: str
    format: str
    layout: str | None  # None: as the scales lie
    fusion: str = "none"
    shuffle: bool = False
    exact: bool = True
    dtype: torch.dtype | None = None  # of x, where the op makes it

    @property
    def quantizes(self) -> bool:
        return self.direction == "quantize"

    @property
    def operands(self) -> tuple[str, ...]:
        """What the op calls the launcher's operands."""
        return interface(self.direction).names


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments: types, shapes and devices are right; addresses are not judged yet."""

    request: Request
    m: int
    k: int
    groups: int
    x: str
    layout: str
    global_scale: str  # none, tensor, row, or group: one for each
    scale_lies: bool  # the global scale that is given is as kernels read it
    alignment: Alignment
    copies: frozenset[str]  # tensors that no kernel reads or writes as they lie
    shape: tuple[int, ...]  # of the op's first result
    dtype: torch.dtype
    scales_shape: tuple[int, ...]
    scales_dtype: torch.dtype
    device: torch.device

    def new_scales(self) -> torch.Tensor:
        """Scales of any values, where the op makes them."""
        return make_scales(self.scales_shape, self.scales_dtype, self.layout, self.device)


def data_dtypes(name: str) -> tuple[torch.dtype, ...]:
    """The types of a format's data, the one that an op makes first."""
    if DATA_BITS[name] == 4:
        return (torch.uint8, _FP4)
    return (DATA_DTYPES.get(name, torch.float8_e4m3fn), torch.uint8)


def check(  # noqa: PLR0917 (as the launcher takes them)
    context: Context,
    request: Request,
    x: Any,
    weight: Any,
    global_scale: Any,
    rows_valid: Any,
    data: Any,
    scales: Any,
    *,
    fake: bool = False,
) -> Arguments:
    """Raises ArgumentError or ArgumentTypeError for the first argument that is wrong. `fake`: tensors may be
    on the meta device."""
    of_x, *_, of_data, of_scales = request.operands
    check_options(request, rows_valid)
    _check_presence(request, weight, global_scale)
    tensors = {of_x: x, of_data: data, of_scales: scales}
    inputs = {name: tensors.pop(name) for name in (("x",) if request.quantizes else ("data", "scales"))}
    first, *others = inputs.items()
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            raise ArgumentTypeError(name, f"it is a {type(value).__name__}; a torch.Tensor is wanted")
    beside = dict(others) | tensors | {"rows_valid": rows_valid, "rms_weight": weight}
    check_devices(context, *first, beside, fake=fake)
    if torch.is_grad_enabled():
        check_gradients(request, x, weight, global_scale, rows_valid, data, scales)
    if request.quantizes:
        m, k, batch, matrix = _read_x(request, x)
    else:
        m, k, batch, matrix = _read_data(request, data)
    groups = prod(batch)
    layout = request.layout or layout_of(request.format, scales)
    data_shape = (*batch, m, k * DATA_BITS[request.format] // 8)
    x_shape = (*batch, m, k)
    scales_shape = (*batch, *scale_shape(m, k, request.format, layout))
    copies = set() if _row_major(matrix) else {matrix.name}
    x_operand: Operand | None
    data_operand: Operand | None
    if request.quantizes:
        written = None if data is None else _output("out", data, data_dtypes(request.format), data_shape)
        x_operand, data_operand = matrix, written
        dtype, shape = data_dtypes(request.format)[0], data_shape
        x_name = X_NAMES[x.dtype]
    else:
        assert request.dtype is not None
        written = None if x is None else _output("out", x, (request.dtype,), x_shape)
        x_operand, data_operand = written, matrix
        dtype, shape = request.dtype, x_shape
        x_name = X_NAMES[request.dtype]
    if scales is not None:
        check_scales(of_scales, scales, request.format, layout, scales_shape, written=request.quantizes)
        if not request.quantizes and not scales_lie(scales, layout):
            copies.add("scales")
    if weight is not None:
        check_weight(weight, x, k)
    scale_of = check_global_scale(global_scale, m, batch)
    if rows_valid is not None:
        check_rows_valid(rows_valid, groups)
    alignment = Alignment(_aligned(x_operand, X_BITS[x_name]), _aligned(data_operand, 8))
    return Arguments(
        request=request,
        m=m,
        k=k,
        groups=groups,
        x=x_name,
        layout=layout,
        global_scale=scale_of,
        scale_lies=scale_of != "group"
        and isinstance(global_scale, torch.Tensor)
        and (global_scale.device, global_scale.dtype) == (first[1].device, torch.float32),
        alignment=alignment,
        copies=frozenset(copies),
        shape=shape,
        dtype=dtype,
        scales_shape=scales_shape,
        scales_dtype=scales_dtype(request.format, layout),
        device=(x if request.quantizes else data).device,
    )


def check_gradients(request: Request, *tensors: Any) -> None:
    """Raises ArgumentError where autograd expects a gradient; for calls with autograd on. `tensors`: the
    launcher's operands, of which the global scale may be a number."""
    for index, tensor in enumerate(tensors):
        if tensor is not None and getattr(tensor, "requires_grad", False):
            guards.refuse_gradients(request.op, **{request.operands[index]: tensor})


def check_options(request: Request, rows_valid: Any) -> None:
    """What does not depend on any tensor's extents."""
    for name, given, allowed in (("format", request.format, LAYOUTS), ("fusion", request.fusion, FUSIONS)):
        if given not in allowed:  # torch.ops passes any
            raise ArgumentError(name, f"it is {given!r}; one of {', '.join(allowed)} is wanted")
    if request.shuffle and rows_valid is not None:
        raise ArgumentError("shuffle", "it is True beside rows_valid; rows that are shuffled all count")
    known = LAYOUTS[request.format]
    as_they_lie = request.layout is None and not request.quantizes and request.format.startswith("fp8")
    if request.layout not in known and not as_they_lie:
        argument = "scale_layout" if request.format.startswith("fp8") else "layout"
        raise ArgumentError(
            argument, f"it is {request.layout!r}; one of {', '.join(known)} is wanted for {request.format}"
        )


def _check_presence(request: Request, weight: Any, global_scale: Any) -> None:
    """The public functions see to it; torch.ops pass what they are given."""
    if (weight is not None) != (request.fusion == "rmsnorm"):
        what = "absent" if weight is None else "given"
        raise ArgumentError("rms_weight", f"it is {what} beside the fusion {request.fusion}; rmsnorm has one")
    if global_scale is not None and request.format != "nvfp4":
        raise ArgumentError("global_scale", f"it is given, and {request.format} has none")


def check_devices(
    context: Context, name: str, first: torch.Tensor, others: dict[str, Any], *, fake: bool = False
) -> None:
    """All tensors are ordinary ones, on the GPU of the first; `fake`: or on the meta device."""
    for other, value in {name: first, **others}.items():
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise ArgumentTypeError(other, f"it is a {type(value).__name__}; a torch.Tensor is wanted")
        if value.layout != torch.strided:
            raise ArgumentTypeError(other, f"its layout is {value.layout}; a strided tensor is wanted")
    if context.described is None and not first.is_cuda and not (fake and first.is_meta):
        raise ArgumentError(name, f"it is on {first.device}; a tensor on a CUDA device is wanted")
    for other, value in others.items():
        if value is not None and value.device != first.device:
            raise ArgumentError(
                other, f"it is on {value.device}, {name} on {first.device}; the same device is wanted"
            )


def check_x(request: Request, x: torch.Tensor) -> None:
    """What does not depend on extents."""
    known = [dtype for dtype, name in X_NAMES.items() if name != "e4m3" or request.format == "nvfp4"]
    if x.dtype not in known:
        raise ArgumentTypeError(
            "x", f"its dtype is {x.dtype}; one of {guards.dtypes(known)} is wanted by {request.op}"
        )


def _read_x(request: Request, x: torch.Tensor) -> tuple[int, int, tuple[int, ...], Operand]:
    """m, k, the groups as leading extents, and how x lies."""
    check_x(request, x)
    operand = Operand.read("x", X_NAMES[x.dtype], x)
    k = operand.columns
    if request.fusion == "silu_mul":
        if k % 2:
            raise ArgumentError(
                "x", f"its shape is {dims(x.shape)}; two halves, an even last extent, are wanted"
            )
        k //= 2
    if request.shuffle:
        row_shuffle.check_rows("shuffle", operand.rows)
    return operand.rows, k, tuple(x.shape[:-2]), operand


def check_data(request: Request, data: torch.Tensor) -> None:
    """What does not depend on extents."""
    known = data_dtypes(request.format)
    if data.dtype not in known:
        raise ArgumentTypeError(
            "data", f"its dtype is {data.dtype}; one of {guards.dtypes(known)} is wanted by {request.op}"
        )
    if not isinstance(request.dtype, torch.dtype) or request.dtype not in RESULTS:
        floats = guards.dtypes(RESULTS)
        raise ArgumentTypeError("dtype", f"it is {request.dtype!r}; one of {floats} is wanted")


def _read_data(request: Request, data: torch.Tensor) -> tuple[int, int, tuple[int, ...], Operand]:
    check_data(request, data)
    operand = Operand.read("data", request.format, data)
    return operand.rows, operand.columns * 8 // DATA_BITS[request.format], tuple(data.shape[:-2]), operand


def _row_major(operand: Operand) -> bool:
    return operand.columns <= 1 or operand.column_stride == 1


def _output(
    name: str, tensor: torch.Tensor, known: tuple[torch.dtype, ...], shape: tuple[int, ...]
) -> Operand:
    if tensor.dtype not in known:
        raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}; one of {guards.dtypes(known)} is wanted")
    return read_output(name, str(tensor.dtype), tensor, shape)


def _aligned(operand: Operand | None, bits: int) -> int:
    """Bytes that the matrix's strides are multiples of; a matrix that the op makes is aligned."""
    if operand is None or not _row_major(operand):
        return MOST_ALIGNED
    found = MOST_ALIGNED
    if operand.rows > 1:
        found = alignment_of(operand.row_stride * bits // 8, found)
    if operand.batch > 1:
        found = alignment_of(operand.batch_stride * bits // 8, found)
    return found
