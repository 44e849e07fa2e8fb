"""Scales in the layouts that kernels read, and the alignment of groups."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.compat.deep_gemm.settings import (
    get_mk_alignment_for_contiguous_layout,
    get_theoretical_mk_alignment_for_contiguous_layout,
    set_mk_alignment_for_contiguous_layout,
)
from tilewright.errors import ArgumentError

__all__ = [
    "get_k_alignment_for_contiguous_layout",
    "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_m_alignment_for_contiguous_layout",
    "get_mk_alignment_for_contiguous_layout",
    "get_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_mn_major_tma_aligned_tensor",
    "get_theoretical_mk_alignment_for_contiguous_layout",
    "get_tma_aligned_size",
    "set_mk_alignment_for_contiguous_layout",
]

TMA_BYTES = 16

get_m_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout
get_k_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout


def get_tma_aligned_size(x: int, element_size: int) -> int:
    """The least count of elements, from x on, that fill whole 16 bytes."""
    multiple = TMA_BYTES // element_size
    return -(-x // multiple) * multiple


def get_mn_major_tma_aligned_tensor(sf: torch.Tensor) -> torch.Tensor:
    """float32 scales [..., mn, k] with strides (1, mn rounded up to 4): `sf` itself where it lies so."""
    *batch, rows, columns = sf.shape
    leading = blockwise_scales.leading(rows)
    if sf.stride()[-2:] == (1, leading) and (not batch or sf.stride(0) == leading * columns):
        return sf
    return _of(tilewright.scale_columns(sf), sf.shape[-2])


def get_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor, psum_layout: torch.Tensor | None = None
) -> torch.Tensor:
    """The exponents of float32 scales [..., mn, k] as int32 words [..., mn, ceil(k / 4)], so strided.

    `psum_layout`: int32, the row after each group's last. Words of rows between two groups are 0.
    """
    if psum_layout is None:
        return _of(tilewright.scale_columns(sf, layout="packed"), sf.shape[-2])
    alignment = get_mk_alignment_for_contiguous_layout()
    words = tilewright.scale_columns(
        sf, psum_layout, layout="packed", grouping="row_ends", alignment=alignment
    )
    return _of(words, sf.shape[-2])


def get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor,
    grouped_layout: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    gran_k: int,
    k_alignment: int,
    use_psum_layout: bool = False,
) -> torch.Tensor:
    """The exponents of float32 scales [k of all groups, mn] as int32 words [words of all groups, mn].

    Args:
        sf: a row for each `gran_k` elements of k; a group's last row may stand for fewer.
        grouped_layout: int32 on the device: each group's k, or (`use_psum_layout`) where it ends, of groups
            that begin at multiples of `k_alignment`.
        ks_cpu: the sizes on the host, from which the result's rows are counted; None or empty: as many rows
            as there can be, of which those that no group has are 0.

    Raises:
        ArgumentError: mn is no multiple of 4, or the host's sizes are of another number of groups.
    """
    if sf.shape[-1] % blockwise_scales.ROW_MULTIPLE:
        raise ArgumentError("sf", f"it has {sf.shape[-1]} columns; expected a multiple of 4")
    if ks_cpu and len(ks_cpu) != grouped_layout.numel():
        raise ArgumentError("ks_cpu", f"it has {len(ks_cpu)} sizes for {grouped_layout.numel()} groups")
    words = tilewright.scale_columns(
        sf.mT,
        grouped_layout,
        layout="packed",
        grouping="k_ends" if use_psum_layout else "k_sizes",
        alignment=k_alignment,
        block=gran_k,
    )
    per_word = gran_k * blockwise_scales.SCALES_PER_WORD
    return words[: sum(-(-k // per_word) for k in ks_cpu)] if ks_cpu else words


def _of(columns: torch.Tensor, rows: int) -> torch.Tensor:
    """A view: `columns.mT[..., :rows, :]`, in a third of the time."""
    *batch, lines, leading = columns.shape
    return columns.as_strided((*batch, rows, lines), (*columns.stride()[:-2], 1, leading))
