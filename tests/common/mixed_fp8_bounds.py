"""How far results of `mixed_fp8_gemm`'s kernels may be from exact ones."""

from __future__ import annotations

import torch

from tilewright import weight_layout
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_gemm.problem import FORMATS


def elements_bound(a: torch.Tensor, scales: torch.Tensor, largest: float | None = None) -> torch.Tensor:
    """The most by which products of MXFP4 may differ because bits of elements are cut off, [m, n] in float64.

    `scales`: exponents, [n, k / 32], k a multiple of 128. Those of a row are relative to the largest of 128
    of k, or to 2^`largest` with `fast_accum`: an element loses less than 2^-17 of it. Elements whose scale
    is within 2^16 of it lose nothing."""
    of_block = scales.double().unflatten(-1, (-1, 4))
    top = of_block.amax(-1, keepdim=True) if largest is None else torch.full_like(of_block[..., :1], largest)
    lost = torch.where(of_block < top - 16, 2.0 ** (top - 17), 0.0).flatten(1)
    return a.double().abs().unflatten(-1, (-1, 32)).sum(-1) @ lost.T


def rounding_bound(a: torch.Tensor, packed: weight_layout.Packed, problem: Problem) -> torch.Tensor:
    """The most by which a sum of products may differ from the exact one, [m, n] in float64.

    A wgmma adds 32 products to a sum. The tensor core keeps 13 bits after the leading bit of the largest of
    these 33 numbers, and cuts off the rest: each of them loses less than 2^-13 of the largest. Every block of
    k that is promoted begins with a sum of 0. Promotions add in F32, which rounds to 2^-24. With `fast_accum`
    all of k is one block; scales are within 2^16 of the largest."""
    format, group = FORMATS[problem.weight_format]
    block = 128 if format == "mxfp4" else group
    if problem.fast_accum:  # all of k is one block
        block = -(-problem.k // 128) * 128
    steps = block // 32
    pad = -problem.k % block
    products = a.double()[:, None, :] * weight_of(packed, problem)
    products = torch.nn.functional.pad(products, (0, pad)).unflatten(-1, (-1, steps, 32))
    sums = products.sum(-1).cumsum(-1)
    before = torch.nn.functional.pad(sums, (1, 0))[..., :-1]
    largest = torch.maximum(products.abs().amax(-1), before.abs())
    cut = 33 * 2.0**-13 * largest.sum((-2, -1))
    promoted = sums[..., -1].abs().sum(-1)
    return cut + sums.shape[-2] * 2.0**-23 * (promoted + cut)
