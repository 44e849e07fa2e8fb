"""Checks the operands beside x and data of the quantising ops: scales, global scale, norm weight, rows that
count."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.ops.common import guards
from tilewright.ops.common.formats import scale_dtype
from tilewright.ops.common.guards import dims
from tilewright.ops.quantize.problem import M_MAJOR


def scales_dtype(name: str, layout: str) -> torch.dtype:
    """The type of a format's scales."""
    if name.startswith("fp8"):
        return torch.int32 if layout == "packed" else torch.float32
    return scale_dtype(name)


def make_scales(shape: Sequence[int], dtype: torch.dtype, layout: str, device: torch.device) -> torch.Tensor:
    """Scales of any values, with memory for their padding."""
    if layout in M_MAJOR:
        return blockwise_scales.allocate(shape, dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, device=device)


def layout_of(name: str, scales: torch.Tensor) -> str:
    """The layout in which the scales of FP8 are read back: by type and strides. What lies otherwise is copied
    to it."""
    if scales.dtype == torch.int32:
        return "packed"
    if name == "fp8_128x128" or scales.is_contiguous():
        return "row_major"
    return "m_major"


def scales_lie(scales: torch.Tensor, layout: str) -> bool:
    """Whether scales that are read lie as their layout says."""
    if layout in M_MAJOR:
        return bool(blockwise_scales.lies_m_major(scales))
    return bool(scales.is_contiguous())


def check_scales(
    name: str, scales: torch.Tensor, of: str, layout: str, shape: tuple[int, ...], *, written: bool
) -> None:
    """Raises unless `scales` are a matrix's, of the format `of`, or may become them, padding and all."""
    own = scales_dtype(of, layout)
    known = (own, torch.uint8) if own.itemsize == 1 else (own,)
    if scales.dtype not in known:
        raise ArgumentTypeError(name, f"its dtype is {scales.dtype}; one of {guards.dtypes(known)} is wanted")
    if layout in M_MAJOR:
        if tuple(scales.shape) != shape:
            raise ArgumentError(name, f"its shape is {dims(scales.shape)}; {dims(shape)} is wanted")
        if written:
            blockwise_scales.with_padding(scales, name)
        return
    wanted = f"a contiguous {dims(shape)} is wanted, padding and all, for the layout {layout}"
    if scales.numel() != prod(shape) or (layout == "row_major" and tuple(scales.shape) != shape):
        raise ArgumentError(name, f"its shape is {dims(scales.shape)}; {wanted}")
    if written and not scales.is_contiguous():
        raise ArgumentError(name, f"its strides are {scales.stride()}; {wanted}")


def check_weight(weight: torch.Tensor, x: torch.Tensor, k: int) -> None:
    if weight.dtype != x.dtype:
        raise ArgumentTypeError("rms_weight", f"its dtype is {weight.dtype}; {x.dtype}, x's, is wanted")
    if tuple(weight.shape) != (k,) or not weight.is_contiguous():
        raise ArgumentError("rms_weight", f"its shape is {dims(weight.shape)}; a contiguous [{k}] is wanted")


def check_global_scale(given: Any, m: int, batch: Sequence[int]) -> str:
    """What there is one for: none, tensor, row or group. `batch`: the groups, as leading extents."""
    if given is None:
        return "none"
    if not isinstance(given, torch.Tensor):
        guards.factor("global_scale", given)
        return "tensor"
    if given.layout != torch.strided:
        raise ArgumentTypeError("global_scale", f"its layout is {given.layout}; a strided tensor is wanted")
    count = given.numel()
    if given.dtype != torch.float32 and (count != 1 or given.device.type != "cpu"):
        raise ArgumentTypeError("global_scale", f"its dtype is {given.dtype}; float32 is wanted")
    if given.is_complex():
        raise ArgumentTypeError("global_scale", f"its dtype is {given.dtype}; a real number is wanted")
    if count == 1:
        return "tensor"
    if not given.is_contiguous():
        raise ArgumentError(
            "global_scale", f"its strides are {given.stride()}; a contiguous tensor is wanted"
        )
    groups = prod(batch)
    shape = tuple(given.shape[:-1]) if given.shape[-1] == 1 else tuple(given.shape)
    if shape in {(*batch, m), (groups * m,)}:
        return "row"
    if shape in {tuple(batch), (groups,)}:
        return "group"
    wanted = f"one number, or {dims((*batch, m))} for the rows"
    wanted += f", or {dims((groups,))} for the groups" if groups > 1 else ""
    raise ArgumentError("global_scale", f"its shape is {dims(given.shape)}; {wanted} are wanted")


def check_rows_valid(rows_valid: torch.Tensor, groups: int) -> None:
    if rows_valid.dtype != torch.int32:
        raise ArgumentTypeError("rows_valid", f"its dtype is {rows_valid.dtype}; int32 is wanted")
    if rows_valid.numel() != groups or not rows_valid.is_contiguous():
        raise ArgumentError(
            "rows_valid",
            f"its shape is {dims(rows_valid.shape)}; a contiguous [{groups}], one a group, is wanted",
        )
