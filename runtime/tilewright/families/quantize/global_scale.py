"""The global scale of NVFP4: a number, or a tensor with one scale, one for each row, or one for each
group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tilewright.calls import guards
from tilewright.calls.constants import constant
from tilewright.calls.custom_ops import number
from tilewright.calls.guards import dims
from tilewright.errors import ArgumentError, ArgumentTypeError

NO_MEMORY = "expected a tensor with memory, got one on meta"


def what_of(scale: Any, m: int, batch: Sequence[int]) -> str:
    """What one global scale covers: none, tensor, row or group. `batch`: the leading extents, the groups.

    Raises ArgumentError or ArgumentTypeError for a scale of none of these.
    """
    if scale is None:
        return "none"
    if not isinstance(scale, torch.Tensor):
        guards.factor("global_scale", scale)
        return "tensor"
    count = scale.numel()
    if scale.dtype != torch.float32 and (count != 1 or scale.device.type != "cpu"):
        raise ArgumentTypeError("global_scale", f"expected float32, got {scale.dtype}")
    if scale.is_complex():
        raise ArgumentTypeError("global_scale", f"expected a real number, got {scale.dtype}")
    if count == 1:
        return "tensor"
    if not scale.is_contiguous():
        raise ArgumentError("global_scale", f"expected a contiguous tensor, got strides {scale.stride()}")
    groups = prod(batch)
    shape = tuple(scale.shape[:-1]) if scale.shape[-1] == 1 else tuple(scale.shape)
    if shape in {(*batch, m), (groups * m,)}:
        return "row"
    if shape in {tuple(batch), (groups,)}:
        return "group"
    expected = f"one number, or {dims((*batch, m))} for the rows"
    expected += f", or {dims((groups,))} for the groups" if groups > 1 else ""
    raise ArgumentError("global_scale", f"expected {expected}, got {dims(scale.shape)}")


def on_device(scale: Any, device: torch.device, rows_of_group: tuple[int, int] | None) -> torch.Tensor:
    """The global scale in the form that kernels read: on the device, one for the tensor or one for each row.

    A number, or a CPU tensor of one number, becomes a constant of the device, which is kept; other tensors
    are copied without waiting. Scales of groups are repeated for their rows (`rows_of_group`: groups, rows).
    """
    if not isinstance(scale, torch.Tensor):
        return constant(guards.factor("global_scale", scale), device)
    if scale.device != device or scale.dtype != torch.float32:
        if scale.device.type == "cpu" and scale.numel() == 1:
            return constant(float(scale), device)
        if scale.is_meta:  # a plan's key does not distinguish it from a CPU tensor
            raise ArgumentError("global_scale", NO_MEMORY)
        scale = scale.to(device, non_blocking=True)
    return scale if rows_of_group is None else scale.reshape(-1, 1).expand(rows_of_group).contiguous()


def in_graph(scale: Any, beside: Any) -> torch.Tensor | None:
    """The global scale as a tensor of the graph. A number, or a CPU tensor of one number, becomes one here,
    because a graph may not keep a tensor that an op makes."""
    if scale is None or not isinstance(beside, torch.Tensor):
        return None
    if not isinstance(scale, torch.Tensor):
        value = number("global_scale", scale)
        value = float(value) if isinstance(value, int) else value
        return beside.new_full((1,), value, dtype=torch.float32)  # a fake one beside fake tensors
    if scale.device.type == "cpu" and scale.numel() == 1 and not scale.is_complex():
        return scale.to(beside.device, torch.float32)
    return scale
