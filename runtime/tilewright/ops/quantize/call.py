"""What is special about calls that quantise, and calls that read back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.context import Context
from tilewright.errors import ArgumentError
from tilewright.interface.op import Op, Operands, Values
from tilewright.ops.common.constants import constant
from tilewright.ops.common.custom_ops import number
from tilewright.ops.common.guards import factor
from tilewright.ops.common.operands import Operand
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.symbolic import symbolic
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.quantize import arguments as checking
from tilewright.ops.quantize import planning
from tilewright.ops.quantize.arguments import Arguments, Request
from tilewright.ops.quantize.family import FAMILY
from tilewright.ops.quantize.interface import INTERFACE, READING_BACK
from tilewright.ops.quantize.problem import DATA_BITS, M_MAJOR, scale_shape
from tilewright.ops.quantize.side_operands import make_scales, scales_dtype

_GLOBAL_SCALE, _SCALES = INTERFACE.names.index("global_scale"), INTERFACE.names.index("out_scales")


class _Op(Op):
    family = FAMILY
    may_fill = True

    def __init__(self, request: Callable[..., Request]) -> None:
        """`request` makes one of some of the op's arguments, by their names."""
        self._of = request
        self._asked = tuple(inspect.signature(request).parameters)

    def request(self, values: Values) -> Request:
        return self._of(**{name: values[name] for name in self._asked})

    def check(self, context: Context, values: Values, *, fake: bool = False) -> Arguments:
        return checking.check(context, self.request(values), *self.operands(values), fake=fake)

    def plan(
        self,
        context: Context,
        arguments: Arguments,
        tactic: Tactic | None,
        again: Callable[..., Any],
        addresses: frozenset[tuple[str, int]] = frozenset(),
    ) -> Plan:
        plan = planning.make(context, arguments, tactic, again, addresses)
        plan.fills = self.fills(arguments)
        return plan

    def fills(self, arguments: Arguments) -> bool:
        return arguments.request.quantizes or (arguments.global_scale != "none" and not arguments.scale_lies)

    def fill(self, arguments: Arguments, operands: Operands) -> Operands:
        """With a global scale as kernels read it, and scales that have memory for their padding."""
        made = list(operands)
        if made[_GLOBAL_SCALE] is not None and not arguments.scale_lies:
            made[_GLOBAL_SCALE] = on_device(made[_GLOBAL_SCALE], arguments)
        if made[_SCALES] is None:
            made[_SCALES] = arguments.new_scales()
        elif arguments.request.quantizes and arguments.layout in M_MAJOR:
            blockwise_scales.with_padding(made[_SCALES], "out_scales")  # else it would be overrun
        return tuple(made)

    def check_devices(self, context: Context, values: Values) -> None:
        """Of a call that torch sees. A global scale may be anywhere where there is memory."""
        first, *others = (name for name in self.tensors if name != "global_scale")
        rest = {name: values[name] for name in others}
        checking.check_devices(context, first, values[first], rest, fake=True)
        scale = values.get("global_scale")
        if isinstance(scale, torch.Tensor) and scale.is_meta and not values[first].is_meta:
            raise ArgumentError("global_scale", "it is on meta; a tensor with memory is wanted")

    def symbolic(self, values: Values) -> bool:
        """Whether an extent or a stride of a tensor is a symbol."""
        tensors = (values[name] for name in self.tensors)
        return any(symbolic(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor))

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        if "global_scale" in values:
            first = next(values[one.name] for one in self.parameters if one.kind == "tensor")
            values["global_scale"] = _in_graph(values["global_scale"], first)
        return values


class Quantize(_Op):
    interface = INTERFACE
    written = ("out", "out_scales")
    passed = ("x", "out", "out_scales")
    constants = MappingProxyType({"global_scale": None})  # of formats that have none

    def pretend(self, context: Context, values: Values) -> tuple[torch.Tensor, ...]:
        """Of extents that are symbols, the checks that need none; the others are made when the op runs."""
        self.check_devices(context, values)
        if not self.symbolic(values):
            self.check(context, values, fake=True)
            return self.room(values)
        request, x = self.request(values), values["x"]
        if torch.is_grad_enabled():
            checking.check_gradients(request, *self.operands(values))
        checking.check_options(request, values["rows_valid"])
        checking.check_x(request, x)
        Operand.read("x", request.format, x)
        return self.room(values)

    def room(self, values: Values) -> tuple[torch.Tensor, ...]:
        request, x = self.request(values), values["x"]
        *batch, m, k = x.shape
        k = k // 2 if request.fusion == "silu_mul" else k
        assert request.layout is not None
        width = k * DATA_BITS[request.format] // 8
        data = x.new_empty((*batch, m, width), dtype=checking.data_dtypes(request.format)[0])
        shape = (*batch, *scale_shape(m, k, request.format, request.layout))
        dtype = scales_dtype(request.format, request.layout)
        return data, make_scales(shape, dtype, request.layout, x.device)


class ReadBack(_Op):
    interface = READING_BACK
    passed = ("data", "scales", "out")
    constants = MappingProxyType({"global_scale": None, "rms_weight": None, "eps": 0.0})

    def pretend(self, context: Context, values: Values) -> tuple[torch.Tensor, ...]:
        """As `Quantize.pretend`."""
        self.check_devices(context, values)
        if not self.symbolic(values):
            made = self.check(context, values, fake=True)
            return (values["data"].new_empty(made.shape, dtype=made.dtype),)
        request, data = self.request(values), values["data"]
        if torch.is_grad_enabled():
            checking.check_gradients(request, *self.operands(values))
        checking.check_options(request, None)
        checking.check_data(request, data)
        Operand.read("data", request.format, data)
        *batch, m, width = data.shape
        shape = (*batch, m, width * 8 // DATA_BITS[request.format])
        return (data.new_empty(shape, dtype=request.dtype),)


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


def _in_graph(given: Any, beside: Any) -> torch.Tensor | None:
    """A global scale as a tensor of the graph, where it is a number or a tensor of one on the CPU: what an op
    would make of it may not be kept."""
    if given is None or not isinstance(beside, torch.Tensor):
        return None
    if not isinstance(given, torch.Tensor):
        value = number("global_scale", given)
        return beside.new_full((1,), value, dtype=torch.float32)  # a fake one beside fake tensors
    if given.device.type == "cpu" and given.numel() == 1 and not given.is_complex():
        return given.to(beside.device, torch.float32)
    return given
