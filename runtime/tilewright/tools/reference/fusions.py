"""Operations that quantising kernels may apply to their input first, in float64, rounded to FP32 once.

A kernel computes in FP32 from the input on and quantises the FP32 result: nothing is rounded to the input's
type in between. Its exponentials, reciprocal square roots and sums differ from these by a few units in the
last place, so that a scale or an element near a boundary may come out one step away.
"""

from __future__ import annotations

import torch

from tilewright.errors import ArgumentError
from tilewright.tools.reference.codes import as_float32


def silu_mul(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up of [..., 2k], its halves gate and up: gate / (1 + exp(-gate)) * up, float32 [..., k].

    Raises:
        ArgumentError: the last extent is odd.
    """
    if x.shape[-1] % 2:
        raise ArgumentError("x", f"shape {tuple(x.shape)}, expected an even last extent: two halves")
    gate, up = as_float32("x", x).double().chunk(2, dim=-1)
    return (gate / (1 + torch.exp(-gate)) * up).float()


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * weight of [..., k], float32; the mean is over k.

    Raises:
        ArgumentError: `weight` is not [k].
    """
    if tuple(weight.shape) != tuple(x.shape[-1:]):
        raise ArgumentError("weight", f"shape {tuple(weight.shape)}, expected {tuple(x.shape[-1:])}")
    value = as_float32("x", x).double()
    mean = value.square().mean(dim=-1, keepdim=True)
    return (value * torch.rsqrt(mean + eps) * as_float32("weight", weight).double()).float()
