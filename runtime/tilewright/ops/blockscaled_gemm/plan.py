"""How a block-scaled call is carried out, but for the direct launch.

Calls are (a, b, a_descale, b_descale, c, out, out_descale, alpha, out_global_scale, beta), tensors but a, b,
their scales and out optional. Scale factors of a quantised D come with their padding zeroed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import scale_factors
from tilewright.ops.blockscaled_gemm.arguments import Arguments, per_byte
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.placement import Placement
from tilewright.ops.blockscaled_gemm.problem import BLOCK, QUANTIZED_OUTPUTS, SCALE_LAYOUT
from tilewright.ops.common import memory, plan
from tilewright.ops.common.formats import as_bytes
from tilewright.ops.common.operands import Operand

OPERANDS = INTERFACE.names


class EmptyPlan(plan.EmptyPlan):
    operands = OPERANDS


class DegeneratePlan(plan.Plan):
    """k is 0: D = beta * C, computed by torch; a quantised D is 0 with scale factors of 0."""

    operands = OPERANDS

    def run(self, call: tuple[Any, ...]) -> None:
        self.check_devices(call)
        _, _, _, _, c, out, out_descale, _, _, beta = call
        if out_descale is not None:
            as_bytes(out).zero_()
            as_bytes(out_descale).zero_()
        elif c is None or beta == 0:
            out.zero_()
        else:
            out.copy_(c.to(torch.float32) * beta)


class PaddedPlan(plan.Plan):
    """Copies what the kernels cannot read as it lies, runs the op on the copies, copies D back.

    `again` is the op with the call's options, for a problem that needs no copies.
    """

    operands = OPERANDS

    def __init__(self, arguments: Arguments, placement: Placement, again: Callable[..., Any]) -> None:
        super().__init__(arguments)
        self._placement = placement
        self._again = again

    def run(self, call: tuple[Any, ...]) -> None:
        self.check_devices(call)
        a, b, a_descale, b_descale, c, out, out_descale, alpha, out_global_scale, beta = call
        others = {name: tensor for name, tensor in self.tensors(call).items() if name != "out"}
        memory.check_aliasing("out", out, others, ("c",))
        arguments: Arguments = self.arguments
        place, d = self._placement, arguments.d
        a_descale = self._without_padding(a_descale, arguments.a, arguments.m)
        b_descale = self._without_padding(b_descale, arguments.b, arguments.n)
        a, a_descale = self._operand("a", a, a_descale, arguments.a.dtype, arguments.m)
        b, b_descale = self._operand("b", b.mT, b_descale, arguments.b.dtype, place.n)
        if c is not None and "c" in place.copies:
            c = memory.padded(c, c.shape[-2], place.n)
        quantized = d in QUANTIZED_OUTPUTS
        made = self._again(
            a, b.mT, a_descale, b_descale, alpha, c=c, beta=beta,
            out=None if "out" in place.copies else out,
            out_descale=None if "out_descale" in place.copies else out_descale,
            out_global_scale=out_global_scale if quantized else None,
        )  # fmt: skip
        made, made_descale = made if quantized else (made, None)
        if "out" in place.copies:
            as_bytes(out).copy_(as_bytes(made)[..., : arguments.n // per_byte(d)])
        if "out_descale" in place.copies:
            as_bytes(out_descale).view(-1).copy_(as_bytes(made_descale).view(-1))

    def _without_padding(self, scales: torch.Tensor, operand: Operand, rows: int) -> torch.Tensor:
        """Scale factors whose padding is 0, where k is padded by whole blocks: they would be read as those of
        its zeros, and zero times NaN is NaN."""
        k, block = self.arguments.k, BLOCK[operand.dtype]
        if -(-self._placement.k // block) == -(-k // block):
            return scales
        buffers = as_bytes(scales).reshape(operand.batch, -1)
        plain = scale_factors.unswizzle(buffers, rows, k, block, SCALE_LAYOUT)
        return scale_factors.swizzle(plain, SCALE_LAYOUT).view(scales.dtype)

    def _operand(
        self, name: str, matrix: torch.Tensor, scales: torch.Tensor, dtype: str, rows: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A [.., rows, k] matrix and its scales, such as some kernel takes them."""
        place, batch = self._placement, self.arguments.batch
        if name in place.copies:
            matrix = memory.padded(as_bytes(matrix), rows, place.k // per_byte(dtype)).view(matrix.dtype)
        if name in place.shared:
            matrix = matrix.expand(batch, *matrix.shape[-2:])
            scales = as_bytes(scales).view(1, -1).repeat(batch, 1).view(scales.dtype)
        elif f"{name}_descale" in place.copies:
            scales = as_bytes(scales).clone().view(scales.dtype)
        return matrix, scales
