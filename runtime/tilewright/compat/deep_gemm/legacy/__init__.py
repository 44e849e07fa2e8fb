"""DeepGEMM's BF16 products for older GPUs, whose operands' rows are taken by index, by the newer ones."""

from __future__ import annotations

import torch

from tilewright.compat.deep_gemm.k_grouped import (
    k_grouped_bf16_gemm_tn_contiguous,
)
from tilewright.compat.deep_gemm.m_grouped import (
    m_grouped_bf16_gemm_nn_contiguous,
    m_grouped_bf16_gemm_nt_contiguous,
)

__all__ = [
    "a_fused_k_grouped_bf16_gemm_tn_contiguous_tl",
    "a_fused_m_grouped_bf16_gemm_nn_contiguous_tl",
    "a_fused_m_grouped_bf16_gemm_nt_contiguous_tl",
    "b_fused_k_grouped_bf16_gemm_tn_contiguous_tl",
    "m_grouped_bf16_gemm_nn_contiguous_tl",
    "m_grouped_bf16_gemm_nt_contiguous_tl",
]

Indices = tuple[torch.Tensor, torch.Tensor]
Ranges = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def m_grouped_bf16_gemm_nt_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, m_indices: torch.Tensor
) -> None:
    """d [m, n] = a [m, k] b [g, n, k]^T, g = m_indices[m]; rows of -1 are 0."""
    m_grouped_bf16_gemm_nt_contiguous(a, b, d, m_indices)


def m_grouped_bf16_gemm_nn_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, m_indices: torch.Tensor
) -> None:
    """Same as the function above, with b [g, k, n]."""
    m_grouped_bf16_gemm_nn_contiguous(a, b, d, m_indices)


def a_fused_m_grouped_bf16_gemm_nt_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, mappings: Indices
) -> None:
    """Same as `m_grouped_bf16_gemm_nt_contiguous_tl`, with a's rows in the order of a second index:
    `mappings` are the groups and the rows. A copy of those rows is made."""
    m_indices, rows = mappings
    m_grouped_bf16_gemm_nt_contiguous(_taken(a, rows), b, d, m_indices)


def a_fused_m_grouped_bf16_gemm_nn_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, mappings: Indices
) -> None:
    """Same as the function above, with b [g, k, n]."""
    m_indices, rows = mappings
    m_grouped_bf16_gemm_nn_contiguous(_taken(a, rows), b, d, m_indices)


def a_fused_k_grouped_bf16_gemm_tn_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, handle: Ranges, acc: bool
) -> None:
    """d [g, m, n] = a^T b over each group's k, plus d where `acc`; of a's rows in the order of an index.

    `handle`: that index, and where each group begins and ends in it; groups follow one another. Where they do
    is read by the host, which waits for it.
    """
    index, start, end = handle
    sizes = (end - start).int()
    k_grouped_bf16_gemm_tn_contiguous(_taken(a, index), b, d, sizes.tolist(), sizes, d if acc else None)


def b_fused_k_grouped_bf16_gemm_tn_contiguous_tl(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, handle: Ranges, acc: bool
) -> None:
    """Same as the function above, with b's rows in the order of an index."""
    index, start, end = handle
    sizes = (end - start).int()
    k_grouped_bf16_gemm_tn_contiguous(a, _taken(b, index), d, sizes.tolist(), sizes, d if acc else None)


def _taken(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows by index; those of padding, whose index is no row's, are any."""
    return rows.index_select(0, index.clamp(0, len(rows) - 1))
