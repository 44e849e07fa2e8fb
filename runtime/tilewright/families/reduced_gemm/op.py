"""The public op."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement, place_without_copies
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.families.reduced_gemm.family import FAMILY
from tilewright.families.reduced_gemm.interface import INTERFACE
from tilewright.families.reduced_gemm.problem import Problem


class _Reduced(Op):
    interface = INTERFACE
    family = FAMILY

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Nothing to do for D and C: they are read and written element by element, with any strides."""
        return place_without_copies(INTERFACE, arguments, addresses, judged=("c", "out"))

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """beta * C, for a k, a batch or an alpha of 0."""
        out, c, beta = values["out"], values["c"], values["beta"]
        out.copy_(c * beta) if c is not None and beta != 0 else out.zero_()


@public(_Reduced())
def reduced_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes alpha * (the sum over the batch of a @ b) + beta * c on the current stream, with the same bits
    every time.

    Sums are FP32 from the first product to the last.

    Args:
        a: [batch, m, k], or [m, k] for every one of b's; bfloat16 or float16, k contiguous.
        b: [batch, k, n], or [k, n] for every one of a's; of a's type, k contiguous.
        out: [m, n], rows contiguous; made if absent. It may be c.
        out_dtype: D's type where `out` is absent: the operands' (the default), or float32.
        c: [m, n] of D's type; not read if beta is 0.
        alpha: a factor. If it is 0, a and b are not read.
        beta: a factor; by default 1 with c and 0 without.
        tactic: a kernel's name, instead of the one the model selects.

    Returns:
        D; beta * c where k, the batch or alpha is 0.

    Raises:
        AlignmentError: TMA cannot read a or b: expected addresses and strides that are multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
