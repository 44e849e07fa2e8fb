"""The global scale of NVFP4: a number, or a tensor of one, of one for each row or one for each group."""

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

NO_MEMORY = "it is on meta; a tensor with memory is wanted"


def what_of(given: Any, m: int, batch: Sequence[int]) -> str:
    """What there is one for: none, tensor, row or group. `batch`: the groups, as leading extents. Raises
    ArgumentError or ArgumentTypeError where it is none of these."""
    if given is None:
        return "none"
    if not isinstance(given, torch.Tensor):
        guards.factor("global_scale", given)
        return "tensor"
    count = given.numel()
    if given.dtype != torch.float32 and (count != 1 or given.device.type != "cpu"):
        raise ArgumentTypeError("global_scale", f"its dtype is {given.dtype}; float32 is wanted")
    if given.is_complex():
        raise ArgumentTypeError("global_scale", f"its dtype is {given.dtype}; a real number is wanted")
    if count == 1:
        return "tensor"
    if not given.is_contiguous():
        message = f"its strides are {given.stride()}; a contiguous tensor is wanted"
        raise ArgumentError("global_scale", message)
    groups = prod(batch)
    shape = tuple(given.shape[:-1]) if given.shape[-1] == 1 else tuple(given.shape)
    if shape in {(*batch, m), (groups * m,)}:
        return "row"
    if shape in {tuple(batch), (groups,)}:
        return "group"
    wanted = f"one number, or {dims((*batch, m))} for the rows"
    wanted += f", or {dims((groups,))} for the groups" if groups > 1 else ""
    raise ArgumentError("global_scale", f"its shape is {dims(given.shape)}; {wanted} are wanted")


def on_device(given: Any, device: torch.device, rows_of_group: tuple[int, int] | None) -> torch.Tensor:
    """As kernels read it: on the device, one for the tensor or one for each row.

    A number, or a tensor of one on the CPU, becomes a constant of the device, which is kept; other tensors
    are copied without waiting. One for each group is repeated for its rows (`rows_of_group`: groups, rows).
    """
    if not isinstance(given, torch.Tensor):
        return constant(guards.factor("global_scale", given), device)
    if given.device != device or given.dtype != torch.float32:
        if given.device.type == "cpu" and given.numel() == 1:
            return constant(float(given), device)
        if given.is_meta:  # a plan's key tells it from a tensor on the CPU no better than get_device() does
            raise ArgumentError("global_scale", NO_MEMORY)
        given = given.to(device, non_blocking=True)
    return given if rows_of_group is None else given.reshape(-1, 1).expand(rows_of_group).contiguous()


def in_graph(given: Any, beside: Any) -> torch.Tensor | None:
    """As a tensor of the graph, where it is a number or a tensor of one on the CPU: what an op would make of
    it may not be kept."""
    if given is None or not isinstance(beside, torch.Tensor):
        return None
    if not isinstance(given, torch.Tensor):
        value = number("global_scale", given)
        value = float(value) if isinstance(value, int) else value
        return beside.new_full((1,), value, dtype=torch.float32)  # a fake one beside fake tensors
    if given.device.type == "cpu" and given.numel() == 1 and not given.is_complex():
        return given.to(beside.device, torch.float32)
    return given
