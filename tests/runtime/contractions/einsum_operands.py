"""Operands of einsum by the letters of an equation."""

from __future__ import annotations

import torch

EXTENTS = {"b": 6, "h": 3, "r": 16, "d": 8, "m": 24, "n": 40, "k": 16, "g": 2}


def operand(term: str, seed: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn([EXTENTS[letter] for letter in term], generator=generator).to(dtype)


def terms(equation: str) -> tuple[str, str, str]:
    left, _, out = equation.partition("->")
    a, _, b = left.partition(",")
    return a, b, out
