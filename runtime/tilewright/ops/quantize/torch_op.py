"""`torch.ops.tilewright.quantize`, `dequantize` and their `*_out`: what the public ops are to torch.compile.

One op serves all formats; what the public functions decide from their arguments comes as words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.ops.common import custom_ops
from tilewright.ops.common.custom_ops import name_of, number, plain
from tilewright.ops.common.operands import Operand
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.quantize import arguments as checking
from tilewright.ops.quantize.arguments import Request
from tilewright.ops.quantize.problem import DATA_BITS, scale_shape
from tilewright.ops.quantize.side_operands import make_scales, scales_dtype

_WORDS = "str op, str format, str layout, str fusion, bool shuffle, bool exact"
_MORE = (
    "Tensor? weight=None, Tensor? global_scale=None, Tensor? rows_valid=None, float epsilon=0.0, "
    "str? tactic=None"
)
_QUANTIZE = f"(Tensor x, *, {_WORDS}, {_MORE}) -> (Tensor, Tensor)"
_QUANTIZE_OUT = f"(Tensor x, Tensor(a!) data, Tensor(b!) scales, *, {_WORDS}, {_MORE}) -> ()"
_BACK_MORE = (
    "str op, str format, str? layout, ScalarType dtype, Tensor? global_scale=None, "
    "Tensor? rows_valid=None, str? tactic=None"
)
_DEQUANTIZE = f"(Tensor data, Tensor scales, *, {_BACK_MORE}) -> Tensor"
_DEQUANTIZE_OUT = f"(Tensor data, Tensor scales, Tensor(a!) x, *, {_BACK_MORE}) -> ()"

_OTHERS = ("weight", "global_scale", "rows_valid")  # operands beside x, data and scales


def _on_device(given: Any, beside: Any) -> torch.Tensor | None:
    """A global scale as a tensor of the graph, where it is a number or a tensor of one on the CPU: what an op
    would make of it may not be kept."""
    if given is None or not isinstance(beside, torch.Tensor):
        return None
    if not isinstance(given, torch.Tensor):
        value = number("global_scale", given)
        return torch.full((1,), value, dtype=torch.float32, device=beside.device)
    if given.device.type == "cpu" and given.numel() == 1 and not given.is_complex():
        return given.to(beside.device, torch.float32)
    return given


def _data_shape(request: Request, x: torch.Tensor) -> tuple[Any, ...]:
    *batch, m, k = x.shape
    k = k // 2 if request.fusion == "silu_mul" else k
    return (*batch, m, k * DATA_BITS[request.format] // 8)


def _request(options: dict[str, Any]) -> Request:
    words = {name: options.pop(name) for name in ("op", "format", "layout", "fusion", "shuffle", "exact")}
    return Request(direction="quantize", **words)


def _back(options: dict[str, Any]) -> Request:
    words = {name: options.pop(name) for name in ("op", "format", "layout", "dtype")}
    return Request(direction="dequantize", **words)


def _fake_quantize(
    x: torch.Tensor, data: torch.Tensor | None = None, scales: torch.Tensor | None = None, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The checks that need no extents; the others are made when the op runs."""
    request = _request(options)
    _refuse(request, options, x, data, scales)
    checking.check_options(request, options.get("rows_valid"))
    checking.check_x(request, x)
    Operand.read("x", request.format, x)
    return _results(request, x)


def _results(request: Request, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Data and scales, of any values."""
    data = x.new_empty(_data_shape(request, x), dtype=checking.data_dtypes(request.format)[0])
    *batch, m, width = data.shape
    assert request.layout is not None
    shape = (*batch, *scale_shape(m, width * 8 // DATA_BITS[request.format], request.format, request.layout))
    dtype = scales_dtype(request.format, request.layout)
    return data, make_scales(shape, dtype, request.layout, x.device)


def _fake_quantize_out(x: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, **options: Any) -> None:
    _fake_quantize(x, data, scales, **options)


def _fake_dequantize(
    data: torch.Tensor, scales: torch.Tensor, x: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    request = _back(options)
    _refuse(request, options, x, data, scales)
    checking.check_options(request, None)
    checking.check_data(request, data)
    Operand.read("data", request.format, data)
    *batch, m, width = data.shape
    return data.new_empty((*batch, m, width * 8 // DATA_BITS[request.format]), dtype=request.dtype)


def _fake_dequantize_out(data: torch.Tensor, scales: torch.Tensor, x: torch.Tensor, **options: Any) -> None:
    _fake_dequantize(data, scales, x, **options)


def _refuse(request: Request, options: dict[str, Any], x: Any, data: Any, scales: Any) -> None:
    if torch.is_grad_enabled():
        others = (options.get(name) for name in _OTHERS)
        checking.check_gradients(request, x, *others, data, scales)


def register(carry_out: Callable[..., Any]) -> None:
    """Registers what runs `carry_out`."""

    def operands(options: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(plain(options.get(name)) for name in _OTHERS)

    def quantize(x: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        request = _request(options)
        rest = (options.get("epsilon", 0.0), options.get("tactic"))
        _, data, scales = carry_out(request, plain(x), *operands(options), None, None, *rest)
        return data, scales

    def quantize_out(x: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, **options: Any) -> None:
        request = _request(options)
        rest = (options.get("epsilon", 0.0), options.get("tactic"))
        carry_out(request, plain(x), *operands(options), plain(data), plain(scales), *rest)
        custom_ops.wrote(data, scales)

    def dequantize(data: torch.Tensor, scales: torch.Tensor, **options: Any) -> torch.Tensor:
        made: torch.Tensor = carry_out(
            _back(options), None, *operands(options), plain(data), plain(scales), 0.0, options.get("tactic")
        )[0]
        return made

    def dequantize_out(data: torch.Tensor, scales: torch.Tensor, x: torch.Tensor, **options: Any) -> None:
        carry_out(
            _back(options),
            plain(x),
            *operands(options),
            plain(data),
            plain(scales),
            0.0,
            options.get("tactic"),
        )
        custom_ops.wrote(x)

    custom_ops.define("quantize", _QUANTIZE, quantize, _fake_quantize)
    custom_ops.define("quantize_out", _QUANTIZE_OUT, quantize_out, _fake_quantize_out)
    custom_ops.define("dequantize", _DEQUANTIZE, dequantize, _fake_dequantize)
    custom_ops.define("dequantize_out", _DEQUANTIZE_OUT, dequantize_out, _fake_dequantize_out)


def call(  # noqa: PLR0917 (as the launcher takes them)
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
    """`carry_out`, through torch's dispatcher; torch.compile traces this."""
    options: dict[str, Any] = {
        "op": request.op,
        "format": request.format,
        "layout": request.layout,
        "global_scale": _on_device(global_scale, x if request.quantizes else data),
        "rows_valid": rows_valid,
        "tactic": name_of(tactic),
    }
    ops = torch.ops.tilewright
    if request.direction == "dequantize":
        options["dtype"] = request.dtype
        if x is None:
            return ops.dequantize.default(data, scales, **options), data, scales
        ops.dequantize_out.default(data, scales, x, **options)
        return x, data, scales
    options |= {
        "fusion": request.fusion,
        "shuffle": bool(request.shuffle),
        "exact": request.exact,
        "weight": weight,
        "epsilon": number("eps", epsilon),
    }
    if scales is None and data is None:
        return x, *ops.quantize.default(x, **options)
    made, made_scales = _results(request, x)  # one op makes both or writes both
    data, scales = made if data is None else data, made_scales if scales is None else scales
    ops.quantize_out.default(x, data, scales, **options)
    return x, data, scales
