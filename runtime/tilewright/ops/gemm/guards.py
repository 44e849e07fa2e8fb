"""Checks of single values and of what no plan's key holds; those are made of a remembered plan too."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Any

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError


def factor(name: str, value: Any) -> float:
    """A factor as the launcher takes it. Raises ArgumentTypeError where it is not a number (a tensor would
    have to be read back), ArgumentError where no float holds it."""
    if type(value) is not int and not isinstance(value, Real):  # the second question is slow
        raise ArgumentTypeError(name, f"it is a {type(value).__name__}; a number is wanted")
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError(name, "it is beyond the range of a float") from None


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
    # Spelt out: every call with autograd on comes here.
    if not (
        a.requires_grad
        or b.requires_grad
        or (out is not None and out.requires_grad)
        or (c is not None and c.requires_grad)
        or (bias is not None and bias.requires_grad)
        or (scale_a is not None and scale_a.requires_grad)
        or (scale_b is not None and scale_b.requires_grad)
    ):
        return
    tensors = {"a": a, "b": b, "out": out, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b}
    name = next(name for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad)
    raise ArgumentError(name, "it requires a gradient and gemm has none; call it under torch.no_grad()")


def check_flag(name: str, value: Any) -> None:
    """True or False, or a number equal to one: what a plan's key may hold for long."""
    constant = isinstance(value, Hashable) and not isinstance(value, torch.Tensor)
    if not constant or value not in (True, False):
        raise ArgumentTypeError(name, f"it is a {type(value).__name__}; True or False is wanted")
