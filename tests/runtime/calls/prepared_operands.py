"""Operands of prepared products."""

from __future__ import annotations

import torch

BF16 = torch.bfloat16
NAN = float("nan")


def matrix(*shape: int, dtype: torch.dtype = BF16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


A, B = matrix(16, 32), matrix(24, 32).t()
C, BIAS, SCALE = matrix(16, 24), matrix(24), torch.full((1,), 0.5)
ROOM = matrix(17, 24)


def empty(*shape: int) -> torch.Tensor:
    return torch.full(shape or (16, 24), NAN, dtype=BF16)
