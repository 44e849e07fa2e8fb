"""Cases of quantising, and what is compared of them."""

from __future__ import annotations

import functools

import quantize_comparison as comparison
import quantize_reference as of
import torch

SHAPE = (33, 512)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def spread(*shape: int) -> torch.Tensor:
    """Numbers of which formats make all their codes."""
    exponents = torch.randint(-34, 3, shape, generator=torch.Generator().manual_seed(2))
    return torch.ldexp(random(*shape), exponents)


def case_of(name: str, x: torch.Tensor | None = None) -> of.Case:
    scale = 150.0 if name == "nvfp4" else None
    return of.Case(name, (spread(*SHAPE) if x is None else x).bfloat16(), of.layouts_of(name)[0], scale)


@functools.cache
def wanted_of(name: str) -> comparison.Stored:
    return case_of(name).wanted()


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, as bytes where its elements are such."""
    return of.as_bytes(tensor.clone())
