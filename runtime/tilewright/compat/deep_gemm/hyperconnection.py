"""The part of hyper-connections before their norm."""

from __future__ import annotations

import torch

import tilewright


def tf32_hc_prenorm_gemm(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, sqr_sum: torch.Tensor, num_splits: int | None = None
) -> None:
    """d = a b^T in TF32 and sqr_sum = the sums of squares of a's rows; a bfloat16 [m, k], b float32 [n, k],
    d float32 [m, n] and sqr_sum [m]: of all of k, or with `num_splits` a first dimension, of parts of k."""
    tilewright.hc_prenorm(a, b, splits=num_splits, out=d, squares=sqr_sum)
