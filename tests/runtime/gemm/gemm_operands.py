"""Operands of `gemm`, and what their products are."""

from __future__ import annotations

import torch

ODD = [(1, 8, 16), (31, 256, 256), (127, 129, 136), (10, 10, 10), (40, 264, 72), (5, 7, 3), (16, 1, 1)]


def matrix(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype == torch.int8:
        return torch.randint(-8, 8, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def column_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT


def expected(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (a.double() @ b.double()).to(dtype)


A, B = matrix(16, 32), matrix(24, 32).t()


def fp8(*shape: int, seed: int = 0) -> torch.Tensor:
    return matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn)


def within(shape: tuple[int, int], dtype: torch.dtype, unit: int = 16) -> torch.Tensor:
    """A matrix whose rows begin at multiples of so many elements, in memory that nothing has written."""
    wide = torch.full((shape[0] + 1, -(-shape[1] // unit) * unit + unit), float("nan")).to(dtype)
    return wide[: shape[0], : shape[1]]
