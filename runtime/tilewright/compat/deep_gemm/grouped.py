"""Products of rows that belong to groups, FP8 with scales and BF16."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

import tilewright
from tilewright.compat.deep_gemm.scaled import Pair
from tilewright.compat.deep_gemm.scales import Recipe, granularities, of_rows, of_weights
from tilewright.compat.deep_gemm.settings import get_mk_alignment_for_contiguous_layout
from tilewright.errors import ArgumentError


def m_grouped_fp8_fp4_gemm_nt_contiguous(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipe: Recipe | None = None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
    expected_m_for_psum_layout: int | None = None,
) -> None:
    """d [m, n] = a [m, k] b [g, n, k]^T, g the group of each row.

    Args:
        grouped_layout: int32 [m], the group of each row, -1 of padding; or (`use_psum_layout`) int32
            [groups], the row behind each group's last, of groups that begin at multiples of the alignment
            (`set_mk_alignment_for_contiguous_layout`).
        ensure_zero_padding: rows of padding are 0; else they may stay as they are.
    """
    _, of_b = granularities(recipe, recipe_a, recipe_b)
    scales = of_rows(a[1]), of_weights(b[1], of_b)
    _contiguous(a[0], b[0], d, grouped_layout, use_psum_layout, ensure_zero_padding, *scales)


def m_grouped_fp8_fp4_gemm_nn_contiguous(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipe: Recipe | None = None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
) -> None:
    """As `m_grouped_fp8_fp4_gemm_nt_contiguous`, of b [g, k, n]."""
    m_grouped_fp8_fp4_gemm_nt_contiguous(
        a, (b[0].mT, b[1].mT), d, grouped_layout, recipe, recipe_a, recipe_b,
        use_psum_layout=use_psum_layout, ensure_zero_padding=ensure_zero_padding,
    )  # fmt: skip


def m_grouped_fp8_fp4_gemm_nt_masked(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    masked_m: torch.Tensor,
    expected_m: int,
    recipe: Recipe | None = None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """d [g, m, n] = a [g, m, k] b [g, n, k]^T for the first `masked_m[g]` rows of each group.

    Args:
        masked_m: int32 [groups], on the device, read when the kernel runs.
        expected_m: how many rows of a group are likely to count: it helps to choose a kernel.
    """
    _, of_b = granularities(recipe, recipe_a, recipe_b)
    tilewright.grouped_gemm_masked(
        a[0], b[0].mT, masked_m, of_rows(a[1]), of_weights(b[1], of_b), expected_m=expected_m, out=d
    )


m_grouped_fp8_gemm_nt_contiguous = m_grouped_fp8_fp4_gemm_nt_contiguous
m_grouped_fp8_gemm_nn_contiguous = m_grouped_fp8_fp4_gemm_nn_contiguous
m_grouped_fp8_gemm_nt_masked = m_grouped_fp8_fp4_gemm_nt_masked
fp8_m_grouped_gemm_nt_masked = m_grouped_fp8_fp4_gemm_nt_masked


def m_grouped_bf16_gemm_nt_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    compiled_dims: str = "nk",
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
    expected_m_for_psum_layout: int | None = None,
) -> None:
    """As `m_grouped_fp8_fp4_gemm_nt_contiguous`, of bfloat16. A b whose k is not contiguous is copied."""
    _contiguous(a, _k_major(b), d, grouped_layout, use_psum_layout, ensure_zero_padding)


def m_grouped_bf16_gemm_nn_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    compiled_dims: str = "nk",
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
) -> None:
    """As `m_grouped_bf16_gemm_nt_contiguous`, of b [g, k, n]."""
    m_grouped_bf16_gemm_nt_contiguous(
        a, b.mT, d, grouped_layout, use_psum_layout=use_psum_layout, ensure_zero_padding=ensure_zero_padding
    )


def m_grouped_bf16_gemm_nt_masked(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    masked_m: torch.Tensor,
    expected_m: int,
    compiled_dims: str = "nk",
) -> None:
    """As `m_grouped_fp8_fp4_gemm_nt_masked`, of bfloat16."""
    tilewright.grouped_gemm_masked(a, b.mT, masked_m, expected_m=expected_m, out=d)


bf16_m_grouped_gemm_nt_masked = m_grouped_bf16_gemm_nt_masked


def k_grouped_fp8_gemm_nt_contiguous(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    grouped_layout: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe = (1, 1, 128),
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """d [g, m, n] = a_g [m, k_g] b_g [n, k_g]^T + c, float32, for groups along k.

    Args:
        a: each group's [m, k_g], one behind the other in one dimension; scales [m, k of all groups / 128].
        b: likewise, of n.
        ks_cpu: not needed.
        grouped_layout: int32 [groups], on the device: each group's k, a multiple of 128, 0 too; read when the
            kernel runs.

    Raises:
        ArgumentError: groups are said by their ends (`use_psum_layout`), or another operand is wrong.
    """
    _refuse_ends(use_psum_layout)
    granularities(recipe)
    m, n = d.shape[1:]
    tilewright.grouped_gemm_k(
        a[0].view(m, -1), b[0].view(n, -1).mT, grouped_layout, of_rows(a[1]), of_rows(b[1]).mT, out=d, c=c
    )


def k_grouped_fp8_gemm_tn_contiguous(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    grouped_layout: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe = (1, 1, 128),
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """As `k_grouped_fp8_gemm_nt_contiguous`, of a [k of all groups, m] and b [k of all groups, n], scales
    [k of all groups / 128, .]; FP8 operands are transposed by a copy."""
    sizes = _sizes(ks_cpu, use_psum_layout)
    turned = []
    for data, scales in (a, b):
        parts = [part.mT.contiguous().flatten() for part in data.view(torch.uint8).split(list(sizes))]
        turned.append((torch.cat(parts).view(data.dtype), scales.mT))
    k_grouped_fp8_gemm_nt_contiguous(turned[0], turned[1], d, ks_cpu, grouped_layout, c, recipe)


def k_grouped_bf16_gemm_tn_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    grouped_layout: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """As `k_grouped_fp8_gemm_tn_contiguous`, of bfloat16, which is read as it lies."""
    sizes = _sizes(ks_cpu, use_psum_layout)
    beta = 0.0 if c is None else 1.0
    for group, (start, k) in enumerate(zip(_starts(sizes), sizes, strict=True)):
        added = None if c is None else c[group]
        left, right = a[start : start + k].mT, b[start : start + k]
        tilewright.gemm(left, right, out=d[group], c=added, beta=beta)


def _sizes(ks_cpu: Sequence[int] | None, ends: bool) -> Sequence[int]:
    _refuse_ends(ends)
    if not ks_cpu:
        raise ArgumentError("ks_cpu", "each group's k is wanted on the host")
    return ks_cpu


def _refuse_ends(ends: bool) -> None:
    if ends:
        raise ArgumentError("use_psum_layout", "groups along k are told by their sizes; ends have no kernel")


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][:-1]


def _contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    layout: torch.Tensor,
    ends: bool,
    zero: bool,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
) -> None:
    if zero:
        d.zero_()  # a tile of padding alone is not written
    groups = {"group_ends" if ends else "group_of_row": layout}
    alignment = get_mk_alignment_for_contiguous_layout()
    tilewright.grouped_gemm_contiguous(a, b.mT, scale_a, scale_b, row_alignment=alignment, out=d, **groups)


def _k_major(b: torch.Tensor) -> torch.Tensor:
    return b if b.stride(-1) == 1 else b.contiguous()
