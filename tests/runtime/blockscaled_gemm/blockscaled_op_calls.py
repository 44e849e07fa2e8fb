"""A call of each block-scaled op, and operands whose addresses are off."""

from __future__ import annotations

import torch
from blockscaled_operands import product

from tilewright.context import Context

CALL, EXACT = product(16, 32, 64)
A, B, A_SCALES, B_SCALES = CALL
QUANTISED = {"out_dtype": torch.float4_e2m1fn_x2, "out_global_scale": torch.ones(1)}


def scales(*shape: int, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8).view(dtype)


def shifted(tensor: torch.Tensor, by: int) -> torch.Tensor:
    """A copy whose address is a multiple of `by` bytes and of no more."""
    flat = tensor.contiguous().view(torch.uint8).flatten()
    room = torch.empty(flat.numel() + 128, dtype=torch.uint8)
    start = -room.data_ptr() % 64 + by
    copy = room[start : start + flat.numel()].copy_(flat)
    return copy.view(tensor.dtype).view(tensor.shape)


def used(context: Context) -> set[str]:
    """Kernels of the plans that launch."""
    return {plan.tactic.kernel for plan in context.plans.values() if hasattr(plan, "tactic")}
