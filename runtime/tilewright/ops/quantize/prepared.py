"""Prepared calls of the quantising ops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from tilewright import blockwise_scales, prepared
from tilewright import context as contexts
from tilewright.ops.common import calls
from tilewright.ops.common.guards import factor, refuse_gradients
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import parsed
from tilewright.ops.quantize import arguments as checking
from tilewright.ops.quantize import op as ops
from tilewright.ops.quantize import planning, requests
from tilewright.ops.quantize.arguments import Arguments, Request
from tilewright.ops.quantize.call import carry_out, on_device
from tilewright.ops.quantize.problem import M_MAJOR
from tilewright.ops.quantize.side_operands import check_scales


class _Prepared(prepared.Prepared):
    def __init__(
        self, op: Callable[..., Any], request: Request, plan: Plan, given: Mapping[str, Any], scale: Any
    ) -> None:
        """`scale` is the global scale as the caller gave it; the one in `given` lies as kernels read it."""

        def check(call: Mapping[str, Any]) -> Arguments:
            return checking.check(contexts.current(), request, *map(call.get, request.operands))

        super().__init__(op, plan, given, check)
        self._scale = self.kept.get("global_scale")
        # A number is a constant of a call's stream, or of its graph; a tensor that is copied may change.
        self._asked = None if scale is self._scale else scale
        self.needs_gradients = self.needs_gradients or getattr(scale, "requires_grad", False)
        self._valid = self.kept["rows_valid"]

    def scale(self) -> torch.Tensor | None:
        """The global scale of a call that brings none."""
        return self._scale if self._asked is None else self._readable(self._asked, self.plan.arguments)

    def _readable(self, scale: Any, arguments: Arguments) -> torch.Tensor:
        """As kernels read it, and shaped as the planned one."""
        made = on_device(scale, arguments)
        planned = self._scale
        return made if planned is None or made.numel() != planned.numel() else made.reshape(planned.shape)

    def complete(self, call: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        """As `carefully`, with a global scale of any form."""
        changed, brought = dict(changes), dict(call)
        if "global_scale" in self.kept:
            asked = changed.get("global_scale")
            if asked is not None:
                arguments = self._check({**self.constants, **self.kept, **call, **changed})
                changed["global_scale"] = self._readable(asked, arguments)
            elif "global_scale" not in changed:
                if torch.is_grad_enabled() and isinstance(self._asked, torch.Tensor):
                    refuse_gradients(self.op.__name__, global_scale=self._asked)
                brought["global_scale"] = self.scale()
        self.carefully(brought, changed)


class Quantizing(_Prepared):
    passed = ("x", "out", "out_scales")
    numbers = ("eps",)
    constants = MappingProxyType({"global_scale": None})  # of formats that have none

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pads = self.plan.arguments.layout in M_MAJOR
        self._weight, self._eps = self.kept["rms_weight"], self.kept["eps"]

    def __call__(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None = None,
        out_scales: torch.Tensor | None = None,
        **changes: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if out is None:
            out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        if out_scales is None:
            out_scales = self.plan.arguments.new_scales()
        if not changes:
            try:
                if self._pads:
                    blockwise_scales.with_padding(out_scales)  # memory for it: else it would be overrun
                gradients = x.requires_grad or out.requires_grad or out_scales.requires_grad
                if not (gradients or self.needs_gradients):
                    status = self.launch(
                        x, self._weight, self.scale(), self._valid, out, out_scales, self._eps, None
                    )
                    if status == 0:
                        return out, out_scales
            except (AttributeError, RuntimeError, TypeError, ValueError):
                pass  # said below
        of = self.plan.arguments
        if self._pads and isinstance(out_scales, torch.Tensor):
            check_scales(
                "out_scales", out_scales, of.request.format, of.layout, of.scales_shape, written=True
            )
        self.complete({"x": x, "out": out, "out_scales": out_scales}, changes)
        return out, out_scales


class Dequantizing(_Prepared):
    passed = ("data", "scales", "out")
    numbers = ("eps",)
    constants = MappingProxyType({"global_scale": None, "rms_weight": None, "eps": 0.0})

    def __call__(
        self, data: torch.Tensor, scales: torch.Tensor, out: torch.Tensor | None = None, **changes: Any
    ) -> torch.Tensor:
        if out is None:
            out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        if not changes:
            try:
                gradients = data.requires_grad or scales.requires_grad or out.requires_grad
                if not (gradients or self.needs_gradients):
                    status = self.launch(out, None, self.scale(), self._valid, data, scales, 0.0, None)
                    if status == 0:
                        return out
            except (AttributeError, RuntimeError, TypeError, ValueError):
                pass  # said below
        self.complete({"data": data, "scales": scales, "out": out}, changes)
        return out


def prepare(
    op: Callable[..., Any], request_of: Callable[..., Request], asked: Mapping[str, Any]
) -> _Prepared:
    """A plan of a quantising op, whose arguments are those asked."""
    context = contexts.current()
    request = request_of(**{name: asked[name] for name in inspect.signature(request_of).parameters})
    given = {name: asked[name] for name in (*request.operands, "eps") if name in asked}
    if "eps" in given:
        given["eps"] = factor("eps", given["eps"])
    scale = given.get("global_scale")
    arguments = checking.check(context, request, *map(given.get, request.operands))
    if given["out"] is None:
        given["out"] = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
    if request.quantizes and given["out_scales"] is None:
        given["out_scales"] = arguments.new_scales()
    if scale is not None:
        given["global_scale"] = on_device(scale, arguments)
    operands = {name: given[name] for name in request.operands if given.get(name) is not None}
    plan = planning.make(context, arguments, parsed(asked["tactic"]), carry_out, calls.addresses(operands))
    return (Quantizing if request.quantizes else Dequantizing)(op, request, plan, given, scale)


MAKERS = {
    op: functools.partial(prepare, op, request_of)
    for op, request_of in (
        (ops.quantize_nvfp4, requests.to_nvfp4),
        (ops.quantize_mxfp4, requests.to_mxfp4),
        (ops.quantize_mxfp8, requests.to_mxfp8),
        (ops.quantize_fp8_blockwise, requests.to_fp8_blockwise),
        (ops.dequantize_nvfp4, requests.from_nvfp4),
        (ops.dequantize_mxfp4, requests.from_mxfp4),
        (ops.dequantize_mxfp8, requests.from_mxfp8),
        (ops.dequantize_fp8_blockwise, requests.from_fp8_blockwise),
    )
}
