"""Checks that are made of a remembered plan too, spelt out because every call pays for them."""

from __future__ import annotations

import torch

from tilewright.errors import ArgumentError
from tilewright.ops.common.guards import refuse_gradients


def check_integer_factors(alpha: float, beta: float) -> None:
    """Integer kernels multiply by integers; floats hold those to 2**24 exactly."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not value.is_integer() or abs(value) > 2**24:  # infinity and NaN are no integers
            raise ArgumentError(name, f"it is {value}; int8 operands want an integer of at most 2**24")


def check_gradients(  # noqa: PLR0917 (as quick as can be)
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    bias: torch.Tensor | None,
    scale_a: torch.Tensor | None,
    scale_b: torch.Tensor | None,
) -> None:
    """Raises ArgumentError where autograd expects a gradient of a tensor; for calls with autograd on."""
    if (
        a.requires_grad
        or b.requires_grad
        or (out is not None and out.requires_grad)
        or (c is not None and c.requires_grad)
        or (bias is not None and bias.requires_grad)
        or (scale_a is not None and scale_a.requires_grad)
        or (scale_b is not None and scale_b.requires_grad)
    ):
        refuse_gradients("gemm", a=a, b=b, out=out, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b)
