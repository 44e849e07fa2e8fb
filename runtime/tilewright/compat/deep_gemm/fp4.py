"""FP4 operands, two E2M1 to a byte, the even index in the low nibble, as our products read them."""

from __future__ import annotations

import torch

import tilewright

# DeepGEMM has int8.
DTYPES = (torch.int8, torch.uint8, torch.float4_e2m1fn_x2)


def is_fp4(operand: torch.Tensor) -> bool:
    return operand.dtype in DTYPES


def extent_k(operand: torch.Tensor) -> int:
    """The k of an operand [..., rows, k] whose k is contiguous."""
    k: int = operand.shape[-1]
    return 2 * k if is_fp4(operand) else k


def k_major(operand: torch.Tensor) -> torch.Tensor:
    """[..., rows, k] with k contiguous, FP4 as uint8 [..., rows, k / 2]. FP8 with its rows contiguous is
    transposed by a kernel; FP4 [..., rows / 2, k] of that kind is repacked by torch."""
    lies = operand.stride(-1) == 1 or operand.shape[-1] == 1
    if is_fp4(operand):
        codes = operand.view(torch.uint8)
        return codes if lies else _repacked(codes)
    return operand if lies else tilewright.transpose_fp8(operand.mT)


def _repacked(codes: torch.Tensor) -> torch.Tensor:
    """Bytes of two rows each, [..., rows / 2, k], as bytes of two of k, [..., rows, k / 2]."""
    by_row = torch.stack((codes & 15, codes >> 4), dim=-2).flatten(-3, -2)
    return by_row[..., 0::2] | by_row[..., 1::2] << 4
