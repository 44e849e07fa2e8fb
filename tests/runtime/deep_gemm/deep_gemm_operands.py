"""Operands of DeepGEMM's functions, and what their results are compared by."""

from __future__ import annotations

import torch

from tilewright import blockwise_scales
from tilewright.compat import deep_gemm


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def quantised(
    x: torch.Tensor, block: tuple[int, int] = (1, 128)
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """FP8 and row-major scales of matrices, and what they stand for."""
    cast = deep_gemm.per_token_cast_to_fp8 if block[0] == 1 else deep_gemm.per_block_cast_to_fp8
    flat = [cast(part, False) for part in x.view(-1, *x.shape[-2:])]
    data = torch.stack([each.view(torch.uint8) for each, _ in flat]).view(torch.float8_e4m3fn).view(x.shape)
    scales = torch.stack([each for _, each in flat])
    scales = scales.view(*x.shape[:-2], *scales.shape[-2:])
    spread = scales.repeat_interleave(128, -1)[..., : x.shape[-1]]
    if block[0] > 1:
        spread = spread.repeat_interleave(128, -2)[..., : x.shape[-2], :]
    return (data, scales), data.double() * spread


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    assert deep_gemm.testing.calc_diff(found, wanted) < 1e-5


def ready(x: torch.Tensor) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """As `quantised`, with scales as kernels read them."""
    (data, scales), values = quantised(x)
    return (data, blockwise_scales.m_major(scales)), values


def fp8(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales of 128 of its last dimension that lie as kernels read them."""
    data = torch.randn(shape).to(torch.float8_e4m3fn)
    scales = torch.rand(*shape[:-1], shape[-1] // 128) + 0.5
    return data, blockwise_scales.m_major(scales)
