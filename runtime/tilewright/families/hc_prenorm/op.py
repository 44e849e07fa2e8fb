"""The public op."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.calls.guards import certainly
from tilewright.calls.op import Op, Values
from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.hc_prenorm.family import FAMILY
from tilewright.families.hc_prenorm.interface import INTERFACE
from tilewright.families.hc_prenorm.problem import Problem


class _Prenorm(Op):
    interface = INTERFACE
    family = FAMILY
    written = ("out", "squares")
    passed = ("a", "b", "out", "squares")

    @staticmethod
    def flops(a: Any, b: Any, *_: Any, **__: Any) -> int:
        return int(2 * a[0] * a[1] * b[0])

    def batched(self, values: Values) -> bool:
        return values["splits"] is not None

    def rules(self, values: Values, problem: Problem) -> None:
        if problem.normalize and values["splits"] is not None:
            raise ArgumentError("normalize", f"splits is {values['splits']}: a norm needs the sum of all")
        if certainly(problem.n == 0):
            raise ArgumentError("b", "expected 8 to 128 rows, got none")

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """Zeros: k is 0."""
        values["out"].zero_()
        values["squares"].zero_()

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        a, splits = values["a"], values["splits"]
        rows = (a.shape[0],) if splits is None else (splits, a.shape[0])
        shapes = ((*rows, values["b"].shape[0]), rows)
        return tuple(torch.empty(shape, dtype=torch.float32, device=a.device) for shape in shapes)


@public(_Prenorm())
def hc_prenorm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    splits: int | None = None,
    normalize: bool = False,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    squares: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes a @ b.T in TF32 and the sum of squares of a's rows, in one pass over a, on the current stream.

    Hyper-connections compute it before their norm (DeepGEMM's `tf32_hc_prenorm_gemm`): a linear map of a
    normalised row is that of the row itself, divided by the root of its mean square.

    Args:
        a: [m, k] bfloat16, rows contiguous, in a wider tensor too; k a multiple of 8.
        b: [n, k] float32, rows contiguous; n a multiple of 8 up to 128. It is rounded to TF32 (10 bits of
            mantissa), to nearest, as it is loaded; a is exact.
        splits: the number of sums, each over a part of k. The ceil(k/64) blocks of 64 divide evenly among
            splits; the first (blocks mod splits) splits have one more. The caller adds the sums up. None: one
            sum over all of k, which the kernel divides as it likes and adds up in a fixed order.
        normalize: divides D by sqrt(squares/k + eps), which is RMSNorm of a without weights, followed by the
            product. `splits` must be None.
        eps: added to the mean square; not read without `normalize`.
        out: float32 [m, n], or [splits, m, n], rows contiguous; made if absent.
        squares: float32 [m], or [splits, m], contiguous; made if absent.
        tactic: a kernel's name, or a tactic (`NAME@splits=2`), instead of the one selected.

    Returns:
        D and the sums of squares, as `out` and `squares`. Zeros where k is 0.

    Raises:
        AlignmentError: rows, or addresses, that are not multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
