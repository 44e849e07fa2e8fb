"""What is special about calls that quantise, and calls that read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from tilewright import blockwise_scales, row_shuffle
from tilewright.architectures.device import DeviceProperties
from tilewright.calls.copies import copy_of
from tilewright.calls.guards import check_word, is_integers, refuse, shown
from tilewright.calls.op import Op, Operands, Values
from tilewright.calls.placement import Arguments, Placement, aligned, least_wanted, misaligned
from tilewright.calls.symbolic import symbolic
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
    """What of a call its problem does not say."""

    one_for: str  # what there is a global scale for: none, tensor, row, group
    scale_lies: bool  # the global scale that is given is as kernels read it
    shuffled: bool  # whether the call asks for another order of rows


class _Op(Op):
    family = FAMILY
    may_fill = True

    def __init__(self, format_of: str | Callable[[Values], str]) -> None:
        """The format that is made or read; of a call's values, where those say it."""
        self._format_of = format_of

    def format_of(self, values: Values) -> str:
        return self._format_of if isinstance(self._format_of, str) else self._format_of(values)

    def described(self, values: Values, problem: Problem) -> tuple[Problem, Noted]:
        first, given = values[self.required[0]], values.get("global_scale")
        tensor = given if isinstance(given, torch.Tensor) else None
        nowhere = tensor is not None and tensor.is_meta and not first.is_meta
        refuse(nowhere, "global_scale", global_scale.NO_MEMORY)
        if symbolic(first) or (tensor is not None and symbolic(tensor)):  # fake ones: the call says
            return problem, Noted("none", False, False)
        one_for = global_scale.what_of(given, problem.m, first.shape[:-2])
        here = tensor is not None and (tensor.device, tensor.dtype) == (first.device, torch.float32)
        lies, shuffled = here and one_for != "group", bool(values.get("shuffle"))
        noted = Noted(one_for, lies, shuffled)
        return replace(problem, global_scale="row" if one_for == "group" else one_for), noted

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """What has no contiguous rows is copied, as is what no kernel of the problem's kind takes."""
        lies = Alignment(**aligned(self.interface, arguments, MOST_ALIGNED, addresses))
        problem = replace(arguments.problem, alignment=lies)
        wanted = least_wanted(context, FAMILY, problem, device)
        wrong = {field for field, count in wanted.items() if getattr(lies, field) % count}
        copies = arguments.scattered | {self.interface.matrices[field].name for field in wrong}
        copies |= misaligned(self.interface, addresses)
        noted = arguments.noted  # None where there is no call
        return Placement(problem, copies, rearranged=noted is not None and noted.shuffled)

    def copied(self, arguments: Arguments, placement: Placement, given: dict[str, Any]) -> dict[str, Any]:
        """What is written is copied too: rows that do not count keep what they hold."""
        copied = {name: self.interface.operand(name) for name in placement.copies}
        used = given | {name: copy_of(one, given[name], placement.problem) for name, one in copied.items()}
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
        """With a global scale as kernels read it, and scales that have memory for their padding."""
        made = list(operands)
        noted, problem = arguments.noted, arguments.problem
        if made[_GLOBAL_SCALE] is not None and not noted.scale_lies:
            assert arguments.device is not None
            rows = (problem.groups, problem.m) if noted.one_for == "group" else None
            made[_GLOBAL_SCALE] = global_scale.on_device(made[_GLOBAL_SCALE], arguments.device, rows)
        if made[_SCALES] is None:
            made[_SCALES] = self.make(arguments, 1)
        elif len(arguments.results) > 1 and problem.layout in COLUMNS:
            blockwise_scales.with_padding(made[_SCALES], "out_scales")  # else it would be overrun
        return tuple(made)

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        if "global_scale" in values:
            scale = values["global_scale"]
            values["global_scale"] = global_scale.in_graph(scale, values[self.required[0]])
        return values


class Quantize(_Op):
    interface = INTERFACE
    written = ("out", "out_scales")
    passed = ("x", "out", "out_scales")
    constants = MappingProxyType({"global_scale": None})  # of formats that have none

    def fields(self, values: Values) -> Mapping[str, Any]:
        told = {"direction": "quantize", "format": self.format_of(values), "fusion": _fusion(values)}
        if "block" in values:
            told["layout"] = _columns_layout(told["format"], values["scale_type"], values["scale_layout"])
        return told | {"exact": not values.get("fast")}

    def combinations(self, values: Values) -> Combinations:
        return Combinations(("x",), {(x,): () for x in inputs(self.format_of(values))}, result="")

    def rules(self, values: Values, problem: Problem) -> None:
        if values.get("shuffle"):
            message = "it is True beside rows_valid; rows that are shuffled all count"
            refuse(values["rows_valid"] is not None, "shuffle", message)
            if isinstance(problem.m, int):
                row_shuffle.check_rows("shuffle", problem.m)

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        told = {"layout": values.get("layout"), **self.fields(values)}
        x, format, layout = values["x"], told["format"], told["layout"]
        *batch, m, k = x.shape
        k = k // 2 if told["fusion"] == "silu_mul" else k
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
        told = {"direction": "dequantize"}
        if "block" in values and isinstance(values["scales"], torch.Tensor):
            told["layout"] = _layout_of(self.format_of(values), values["scales"])
        return told

    def combinations(self, values: Values) -> Combinations:
        formats = tuple(_MXFP8.values()) if self.name.endswith("mxfp8") else (self.format_of(values),)
        return Combinations(("format",), {(one,): FLOATS for one in formats}, result="x", option="dtype")


def mxfp8(values: Values) -> str:
    """The format of elements of a `dtype`."""
    dtype = values["dtype"]
    if not isinstance(dtype, torch.dtype) or dtype not in _MXFP8:
        raise ArgumentTypeError("dtype", f"it is {shown(dtype)}; float8_e4m3fn or float8_e5m2 is wanted")
    return _MXFP8[dtype]


def fp8_blockwise(values: Values) -> str:
    """The format of blocks of so many rows and columns."""
    given, wanted = values["block"], "(1, 128), (128, 1) or (128, 128) is wanted"
    if not is_integers(given):
        raise ArgumentTypeError("block", f"it is {shown(given)}; {wanted}")
    found = _BLOCKWISE.get(tuple(given))
    if found is None:
        raise ArgumentError("block", f"it is {shown(given)}; {wanted}")
    return found


def _fusion(values: Values) -> str:
    activation, weight = values["activation"], values["rms_weight"]
    check_word("activation", activation, ("none", "silu_mul"), "none or silu_mul")
    both = f"it is given beside {activation}; one of the two is possible"
    refuse(weight is not None and activation != "none", "rms_weight", both)
    return str(activation) if weight is None else "rmsnorm"


def _columns_layout(format: str, scale_type: Any, layout: Any) -> str:
    """Where scales of FP8 lie that are written."""
    check_word("scale_type", scale_type, ("float32", "ue8m0"), "float32 or ue8m0")
    packed, known, given = scale_type == "ue8m0", LAYOUTS[format], f"it is {scale_type!r}"
    refuse(packed and "packed" not in known, "scale_type", f"{given}; float32 is wanted for {format}")
    if layout is None:
        return "packed" if packed else known[0]
    check_word("scale_layout", layout, tuple(dict.fromkeys((*known, "packed"))))
    beside = f"it is {layout!r} beside scales of {scale_type}; ue8m0 are packed, and no other"
    refuse((layout == "packed") != packed, "scale_layout", beside)
    wanted = f"it is {layout!r}; one of {', '.join(known)} is wanted for {format}"
    refuse(layout not in known, "scale_layout", wanted)
    return str(layout)


def _layout_of(format: str, scales: torch.Tensor) -> str:
    """The layout in which the scales of FP8 are read back: by type and strides. What lies otherwise is copied
    to it."""
    if scales.dtype == torch.int32:
        return "packed"
    contiguous = symbolic(scales) or scales.is_contiguous()
    return "row_major" if BLOCK[format][0] > 1 or contiguous else "m_major"
