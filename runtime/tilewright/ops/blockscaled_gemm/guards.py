"""Checks that are made of a remembered plan too, spelt out because every call pays for them."""

from __future__ import annotations

import torch

from tilewright.ops.common.guards import refuse_gradients


def check_gradients(  # noqa: PLR0917 (as quick as can be)
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    alpha: torch.Tensor | None,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    out_global_scale: torch.Tensor | None,
) -> None:
    """Raises ArgumentError where autograd expects a gradient of a tensor; for calls with autograd on."""
    if (
        a.requires_grad
        or b.requires_grad
        or (alpha is not None and alpha.requires_grad)
        or (out is not None and out.requires_grad)
        or (c is not None and c.requires_grad)
        or (out_global_scale is not None and out_global_scale.requires_grad)
    ):
        refuse_gradients(op, a=a, b=b, alpha=alpha, out=out, c=c, out_global_scale=out_global_scale)
