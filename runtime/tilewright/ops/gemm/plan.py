"""How a `gemm` call is carried out, but for the direct launch.

Calls are (a, b, c, out, bias, scale_a, scale_b, alpha, beta), the tensors but a, b and out optional.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.ops.common import memory, plan
from tilewright.ops.common.memory import padded
from tilewright.ops.gemm.arguments import Arguments
from tilewright.ops.gemm.interface import INTERFACE
from tilewright.ops.gemm.placement import Placement

OPERANDS = INTERFACE.names


class EmptyPlan(plan.EmptyPlan):
    operands = OPERANDS


# By name, as torch has them.
ACTIVATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


class DegeneratePlan(plan.Plan):
    """k is 0: D = activation(beta * C + bias), computed by torch in the kernels' compute type."""

    operands = OPERANDS

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._compute = torch.int32 if arguments.integer else torch.float32
        self._activation = ACTIVATED[arguments.activation]

    def run(self, call: tuple[Any, ...]) -> None:
        _, _, c, out, bias, _, _, _, beta = call
        value = torch.zeros(self.shape, dtype=self._compute, device=self.device)
        if c is not None and beta != 0:
            value += c.to(self._compute) * (int(beta) if self.arguments.integer else beta)
        if bias is not None:
            value += bias.to(self._compute)
        out.copy_(self._activation(value))


class PaddedPlan(plan.Plan):
    """Copies what the kernels cannot read as it lies, runs the op on the copies, copies D back.

    `again` is `gemm` with the call's options, for a problem that needs no copies.
    """

    operands = OPERANDS

    def __init__(
        self, arguments: Arguments, placement: Placement, again: Callable[..., torch.Tensor]
    ) -> None:
        super().__init__(arguments)
        self._placement = placement
        self._again = again

    def run(self, call: tuple[Any, ...]) -> None:
        a, b, c, out, bias, scale_a, scale_b, alpha, beta = call
        place, n = self._placement, self.arguments.n
        memory.check_aliasing(out, a=a, b=b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b)
        if "a" in place.copies:
            a = padded(a, a.shape[-2], place.k)
        if "b" in place.copies:
            b = padded(b.mT, place.n, place.k).mT
        if c is not None and "c" in place.copies:
            c = padded(c, c.shape[-2], place.n)
        if bias is not None and "bias" in place.copies:
            bias = padded(bias.unsqueeze(0), 1, place.n).squeeze(0)
        elsewhere = "out" in place.copies
        made = self._again(
            a, b, out=None if elsewhere else out, c=c, alpha=alpha, beta=beta, scale_a=scale_a,
            scale_b=scale_b, bias=bias,
        )  # fmt: skip
        if elsewhere:
            out.copy_(made[..., :n])
