"""Calls that quantise, and calls that read back: checks, placement, and the operands that a launch adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from tilewright import blockwise_scales, row_shuffle
from tilewright.architectures.device import DeviceProperties
from tilewright.calls.copies import copy_of
from tilewright.calls.guards import check_word, is_integers, refuse, shown, symbolic
from tilewright.calls.op import Op, Operands, Values
from tilewright.calls.placement import Arguments, Placement, aligned, least_wanted, misaligned
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations
from tilewright.declarations.scaled import COLUMNS, scale_shape, scale_type
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.quantize import global_scale
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.interface import INTERFACE, READING_BACK
from tilewright.families.quantize.problem import (
    BLOCK,
    BLOCKWISE,
    FLOATS,
    LAYOUTS,
    MOST_ALIGNED,
    Alignment,
    Problem,
    inputs,
)
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.formats.types import per_byte

_GLOBAL_SCALE, _SCALES = INTERFACE.names.index("global_scale"), INTERFACE.names.index("out_scales")
_MXFP8 = {dtype_of(name): name for name in ("mxfp8", "mxfp8_e5m2")}
_BLOCKWISE = {BLOCK[name]: name for name in BLOCKWISE}


class Noted(NamedTuple):
    """The properties of a call that its problem does not hold."""

    one_for: str  # what each global scale is for: none, tensor, row, group
    scale_lies: bool  # whether kernels can read the caller's global scale as it is
    shuffled: bool  # whether the call asks for another order of rows


class _Op(Op):
    family = FAMILY
    may_fill = True

    def __init__(self, format_of: str | Callable[[Values], str]) -> None:
        """`format_of`: the format that is written or read, or a function of a call's values."""
        self._format_of = format_of

    def format_of(self, values: Values) -> str:
        return self._format_of if isinstance(self._format_of, str) else self._format_of(values)

    def described(self, values: Values, problem: Problem) -> tuple[Problem, Noted]:
        first, scale = values[self.required[0]], values.get("global_scale")
        tensor = scale if isinstance(scale, torch.Tensor) else None
        nowhere = tensor is not None and tensor.is_meta and not first.is_meta
        refuse(nowhere, "global_scale", global_scale.NO_MEMORY)
        if symbolic(first) or (
            tensor is not None and symbolic(tensor)
        ):  # a fake tensor: a later call says it
            return problem, Noted("none", False, False)
        one_for = global_scale.what_of(scale, problem.m, first.shape[:-2])
        here = tensor is not None and (tensor.device, tensor.dtype) == (first.device, torch.float32)
        lies, shuffled = here and one_for != "group", bool(values.get("shuffle"))
        noted = Noted(one_for, lies, shuffled)
        return replace(problem, global_scale="row" if one_for == "group" else one_for), noted

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Copies operands whose rows are not contiguous, and operands that no kernel of the problem's kind
        supports."""
        lies = Alignment(**aligned(self.interface, arguments, MOST_ALIGNED, addresses))
        problem = replace(arguments.problem, alignment=lies)
        least = least_wanted(context, FAMILY, problem, device)
        wrong = {field for field, count in least.items() if getattr(lies, field) % count}
        copies = arguments.scattered | {self.interface.matrices[field].name for field in wrong}
        copies |= misaligned(self.interface, addresses)
        noted = arguments.noted  # None if there is no call
        return Placement(problem, copies, rearranged=noted is not None and noted.shuffled)

    def copied(self, arguments: Arguments, placement: Placement, values: dict[str, Any]) -> dict[str, Any]:
        """Copies results too, because rows beyond `rows_valid` keep their contents."""
        used = values | {
            name: copy_of(self.interface.operand(name), values[name], placement.problem)
            for name in placement.copies
        }
        if arguments.noted.shuffled:
            used |= {
                "x": row_shuffle.shuffle_rows(as_bytes(used["x"])).view(used["x"].dtype),
                "shuffle": False,
            }
            if arguments.noted.one_for == "row":
                per_row = used["global_scale"].reshape(-1, arguments.problem.m, 1)
                used["global_scale"] = row_shuffle.shuffle_rows(per_row).reshape(-1)
        return used

    def fills(self, arguments: Arguments) -> bool:
        noted: Noted = arguments.noted
        return len(arguments.results) > 1 or (noted.one_for != "none" and not noted.scale_lies)

    def fill(self, arguments: Arguments, operands: Operands) -> Operands:
        """Adds the global scale in the form that kernels read, and scales with memory for their padding."""
        filled = list(operands)
        noted, problem = arguments.noted, arguments.problem
        if filled[_GLOBAL_SCALE] is not None and not noted.scale_lies:
            assert arguments.device is not None
            rows = (problem.groups, problem.m) if noted.one_for == "group" else None
            filled[_GLOBAL_SCALE] = global_scale.on_device(filled[_GLOBAL_SCALE], arguments.device, rows)
        if filled[_SCALES] is None:
            filled[_SCALES] = self.make(arguments, 1)
        elif len(arguments.results) > 1 and problem.layout in COLUMNS:
            # Raises if there is no memory for padding.
            blockwise_scales.with_padding(filled[_SCALES], "out_scales")
        return tuple(filled)

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        if "global_scale" in values:
            scale = values["global_scale"]
            values["global_scale"] = global_scale.in_graph(scale, values[self.required[0]])
        return values


class Quantize(_Op):
    interface = INTERFACE
    written = ("out", "out_scales")
    passed = ("x", "out", "out_scales")
    constants = MappingProxyType({"global_scale": None})  # of formats without one

    def fields(self, values: Values) -> Mapping[str, Any]:
        fields = {"direction": "quantize", "format": self.format_of(values), "fusion": _fusion(values)}
        if "block" in values:
            fields["layout"] = _columns_layout(fields["format"], values["scale_type"], values["scale_layout"])
        return fields | {"exact": not values.get("fast")}

    def combinations(self, values: Values) -> Combinations:
        return Combinations(("x",), {(x,): () for x in inputs(self.format_of(values))}, result="")

    def rules(self, values: Values, problem: Problem) -> None:
        if values.get("shuffle"):
            message = "not supported beside rows_valid, because all rows are shuffled"
            refuse(values["rows_valid"] is not None, "shuffle", message)
            if isinstance(problem.m, int):
                row_shuffle.check_rows("shuffle", problem.m)

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        fields = {"layout": values.get("layout"), **self.fields(values)}
        x, format, layout = values["x"], fields["format"], fields["layout"]
        *batch, m, k = x.shape
        k = k // 2 if fields["fusion"] == "silu_mul" else k
        dtype = torch.uint8 if per_byte(format) > 1 else dtype_of(format)
        shape = (*batch, *scale_shape(m, k, format, layout))
        make = blockwise_scales.allocate if layout in COLUMNS else torch.empty
        data = x.new_empty((*batch, m, k // per_byte(format)), dtype=dtype)
        return data, make(shape, dtype=dtype_of(scale_type(format, layout)), device=x.device)


class ReadBack(_Op):
    interface = READING_BACK
    passed = ("data", "scales", "out")
    constants = MappingProxyType({"global_scale": None, "rms_weight": None, "eps": 0.0})

    def fields(self, values: Values) -> Mapping[str, Any]:
        fields = {"direction": "dequantize"}
        if "block" in values and isinstance(values["scales"], torch.Tensor):
            fields["layout"] = _layout_of(self.format_of(values), values["scales"])
        return fields

    def combinations(self, values: Values) -> Combinations:
        formats = tuple(_MXFP8.values()) if self.name.endswith("mxfp8") else (self.format_of(values),)
        return Combinations(
            ("format",), {(format,): FLOATS for format in formats}, result="x", option="dtype"
        )


def mxfp8(values: Values) -> str:
    """The MXFP8 format whose elements have the call's `dtype`."""
    dtype = values["dtype"]
    if not isinstance(dtype, torch.dtype) or dtype not in _MXFP8:
        raise ArgumentTypeError("dtype", f"expected float8_e4m3fn or float8_e5m2, got {shown(dtype)}")
    return _MXFP8[dtype]


def fp8_blockwise(values: Values) -> str:
    """The FP8 format whose blocks have the call's rows and columns."""
    block = values["block"]
    message = f"expected (1, 128), (128, 1) or (128, 128), got {shown(block)}"
    if not is_integers(block):
        raise ArgumentTypeError("block", message)
    if tuple(block) not in _BLOCKWISE:
        raise ArgumentError("block", message)
    return _BLOCKWISE[tuple(block)]


def _fusion(values: Values) -> str:
    activation, weight = values["activation"], values["rms_weight"]
    check_word("activation", activation, ("none", "silu_mul"), "none or silu_mul")
    both = f"not supported beside {activation}; one of the two is possible"
    refuse(weight is not None and activation != "none", "rms_weight", both)
    return str(activation) if weight is None else "rmsnorm"


def _columns_layout(format: str, scale_type: Any, layout: Any) -> str:
    """The layout of the FP8 scales that a call writes."""
    check_word("scale_type", scale_type, ("float32", "ue8m0"), "float32 or ue8m0")
    packed, layouts = scale_type == "ue8m0", LAYOUTS[format]
    floats = f"expected float32 for {format}, got {scale_type!r}"
    refuse(packed and "packed" not in layouts, "scale_type", floats)
    if layout is None:
        return "packed" if packed else layouts[0]
    check_word("scale_layout", layout, tuple(dict.fromkeys((*layouts, "packed"))))
    beside = f"{layout!r} is not supported for scales of {scale_type}; only ue8m0 are packed, always"
    refuse((layout == "packed") != packed, "scale_layout", beside)
    return str(layout)


def _layout_of(format: str, scales: torch.Tensor) -> str:
    """The layout in which FP8 scales are read back, by their type and strides. Scales in another layout are
    copied to it."""
    if scales.dtype == torch.int32:
        return "packed"
    contiguous = symbolic(scales) or scales.is_contiguous()
    return "row_major" if BLOCK[format][0] > 1 or contiguous else "m_major"
