"""Einsums: products of batches whose letters lie in any order."""

from __future__ import annotations

import torch

import tilewright
from tilewright import contractions, planned
from tilewright.compat.deep_gemm import warm
from tilewright.errors import ArgumentError
from tilewright.interface.publish import published
from tilewright.library import Launcher

EQUATIONS = ("bmk,bnk->mn", "bhr,hdr->bhd", "bhd,hdr->bhr")


def einsum(
    expr: str,
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    use_cublaslt: bool = False,
) -> None:
    """d = the contraction `expr` of a and b, of bfloat16, plus c; `tilewright.einsum` takes any other.

    Args:
        expr: one of `EQUATIONS`.
        d: bfloat16 or float32.
        c: of d's type; may be d.
        use_cublaslt: computes by torch, for comparisons.

    Raises:
        ArgumentError: the equation is another, or an operand is wrong.
    """
    if expr not in EQUATIONS:
        raise ArgumentError("expr", f"it is {expr!r}; one of {', '.join(EQUATIONS)} is wanted")
    if use_cublaslt:
        by_torch = torch.einsum(expr, a, b)
        d.copy_(by_torch if c is None else by_torch + c)
        return
    beta = 0.0 if c is None else 1.0
    key = ("einsum", expr, type(a), a.shape, type(b), b.shape, beta)
    wants = a.requires_grad or b.requires_grad or d.requires_grad or (c is not None and c.requires_grad)
    if not warm.launched(key, (a, b, c, d), wants):
        tilewright.einsum(expr, a, b, out=d, c=c, beta=beta)
        warm.keep(key, lambda: _launcher(expr, a, b, d, c))


def _launcher(
    expr: str, a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None
) -> Launcher | None:
    """What launches the product that an einsum is; None where an operand is copied for it."""
    product = contractions.product(expr, a, b, out=d, c=c)
    beta = 0.0 if c is None else 1.0
    more = len(published[product.op].interface.names) - 4  # operands beside a, b, c and d: there are none
    left, right = (b, a) if product.swapped else (a, b)
    launch = planned.direct(
        product.op, (left, right, c, d, *[None] * more), product.left, product.right, out=product.out,
        c=product.c, beta=beta,
    ) if product.viewed else None  # fmt: skip
    if launch is None:
        return None
    rest = (*[None] * more, 1.0, beta)
    if product.swapped:
        return lambda a, b, c, d, workspace: launch(b, a, c, d, *rest, workspace)
    return lambda a, b, c, d, workspace: launch(a, b, c, d, *rest, workspace)
