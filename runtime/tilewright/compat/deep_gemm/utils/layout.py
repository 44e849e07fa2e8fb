"""Scales in the layouts that kernels read, and the alignment of groups."""

from __future__ import annotations

import torch

from tilewright import blockwise_scales
from tilewright.compat.deep_gemm.settings import (
    get_mk_alignment_for_contiguous_layout,
    get_theoretical_mk_alignment_for_contiguous_layout,
    set_mk_alignment_for_contiguous_layout,
)

__all__ = [
    "get_k_alignment_for_contiguous_layout", "get_m_alignment_for_contiguous_layout",
    "get_mk_alignment_for_contiguous_layout",
    "get_mn_major_tma_aligned_tensor", "get_theoretical_mk_alignment_for_contiguous_layout",
    "get_tma_aligned_size", "set_mk_alignment_for_contiguous_layout",
]  # fmt: skip

TMA_BYTES = 16

get_m_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout
get_k_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout


def get_tma_aligned_size(x: int, element_size: int) -> int:
    """The least count of elements, from x on, that fill whole 16 bytes."""
    multiple = TMA_BYTES // element_size
    return -(-x // multiple) * multiple


def get_mn_major_tma_aligned_tensor(sf: torch.Tensor) -> torch.Tensor:
    """float32 scales [..., mn, k] with strides (1, mn rounded up to 4): `sf` itself where it lies so."""
    return sf if blockwise_scales.lies_m_major(sf) else blockwise_scales.m_major(sf)
