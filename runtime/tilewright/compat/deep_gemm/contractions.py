"""Einsums: products of batches whose letters lie in any order."""

from __future__ import annotations

import torch

import tilewright
from tilewright.compat.deep_gemm.gpus import has_tcgen05
from tilewright.errors import ArgumentError

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
        raise ArgumentError("expr", f"it is {expr!r}; expected one of {', '.join(EQUATIONS)}")
    if use_cublaslt:
        by_torch = torch.einsum(expr, a, b)
        d.copy_(by_torch if c is None else by_torch + c)
        return
    if expr == EQUATIONS[0] and has_tcgen05(a):
        # No kernel there adds up a batch: the batch becomes a part of k, in copies of a and b.
        left, right = (operand.transpose(0, 1).flatten(1) for operand in (a, b))
        tilewright.gemm(left, right.mT, out=d, c=c, beta=0.0 if c is None else 1.0)
        return
    tilewright.einsum(expr, a, b, out=d, c=c, beta=0.0 if c is None else 1.0)
