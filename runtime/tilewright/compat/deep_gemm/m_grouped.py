"""Products of rows that belong to groups: FP8 and FP4 with scales, and BF16."""

from __future__ import annotations

from typing import Any

import torch

import tilewright
from tilewright.calls import fast_path
from tilewright.compat.deep_gemm.fp4 import is_fp4, k_major
from tilewright.compat.deep_gemm.gpus import has_tcgen05, refuse_groups
from tilewright.compat.deep_gemm.layouts import of_layout
from tilewright.compat.deep_gemm.scales import Pair, Recipe, check_types, lie_ready, of_operands, pairs
from tilewright.compat.deep_gemm.settings import get_mk_alignment_for_contiguous_layout
from tilewright.errors import ArgumentError

Recipes = tuple[Recipe | None, Recipe | None, Recipe | None, bool]  # and whether FP32 stays FP32

_MASKED = ("a", "b", "scale_a", "scale_b", "out", "rows_valid")
_CONTIGUOUS = ("a", "b", "scale_a", "scale_b", "out", "group_of_row", "group_ends")


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

    a and b are pairs, as `fp8_fp4_gemm_nt` takes them.

    Args:
        grouped_layout: int32 [m], the group of each row, -1 of padding; or (`use_psum_layout`) int32
            [groups], the row after each group's last, of groups that begin at multiples of the alignment
            (`set_mk_alignment_for_contiguous_layout`).
        ensure_zero_padding: rows of padding are 0, as they always are where each has its index; else they may
            stay as they are.
        expected_m_for_psum_layout: with `use_psum_layout`, how many rows of a group are likely to count: it
            helps to choose a kernel.

    Raises:
        ArgumentError: an operand is wrong; or `expected_m_for_psum_layout` is given without
            `use_psum_layout`, or is not positive.
    """
    recipes = (recipe, recipe_a, recipe_b, disable_ue8m0_cast)
    expected = _expected(expected_m_for_psum_layout, use_psum_layout)
    operands = pairs(a, b)
    _contiguous(*operands, d, grouped_layout, use_psum_layout, ensure_zero_padding, recipes, expected)


m_grouped_fp8_fp4_gemm_nn_contiguous = of_layout("nn", m_grouped_fp8_fp4_gemm_nt_contiguous)


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
    (x, of_x), (y, of_y) = pairs(a, b)
    recipes = (recipe, recipe_a, recipe_b, disable_ue8m0_cast)
    key = ("masked", type(x), x.shape, type(y), y.shape, expected_m, recipes)
    call = (x, y, of_x, of_y, d, masked_m)
    wants = x.requires_grad or y.requires_grad or of_x.requires_grad or of_y.requires_grad or d.requires_grad
    if fast_path.launch(key, call, wants):
        return
    check_types(of_x, of_y)
    refuse_groups(x)
    left, right = k_major(x), k_major(y)
    rows, columns, block = of_operands(
        (left, of_x), (right, of_y), *recipes, has_tcgen05(x) and not recipes[-1]
    )
    operands = left, right.mT, masked_m, rows, columns
    options = {"expected_m": expected_m, "scale_block": block, "out": d}
    tilewright.grouped_gemm_masked(*operands, **options)
    if not (is_fp4(x) or is_fp4(y)) and lie_ready((x, y, of_x, of_y), (left, right, rows, columns)):
        fast_path.keep(key, call, _MASKED, tilewright.grouped_gemm_masked, *operands, **options)


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
    """Same as `m_grouped_fp8_fp4_gemm_nt_contiguous`, for bfloat16. n may be contiguous in b."""
    pair = ((a, None), (b if d.dtype == b.dtype else _k_major(b), None))
    expected = _expected(expected_m_for_psum_layout, use_psum_layout)
    _contiguous(*pair, d, grouped_layout, use_psum_layout, ensure_zero_padding, None, expected)


m_grouped_bf16_gemm_nn_contiguous = of_layout("nn", m_grouped_bf16_gemm_nt_contiguous)


def m_grouped_bf16_gemm_nt_masked(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    masked_m: torch.Tensor,
    expected_m: int,
    compiled_dims: str = "nk",
) -> None:
    """Same as `m_grouped_fp8_fp4_gemm_nt_masked`, for bfloat16."""
    key = ("masked", type(a), a.shape, type(b), b.shape, expected_m)
    call = (a, b, None, None, d, masked_m)
    if not fast_path.launch(key, call, a.requires_grad or b.requires_grad or d.requires_grad):
        operands = a, b.mT, masked_m
        tilewright.grouped_gemm_masked(*operands, expected_m=expected_m, out=d)
        op = tilewright.grouped_gemm_masked
        fast_path.keep(key, call, _MASKED, op, *operands, expected_m=expected_m, out=d)


bf16_m_grouped_gemm_nt_masked = m_grouped_bf16_gemm_nt_masked


def _contiguous(
    a: tuple[torch.Tensor, torch.Tensor | None],
    b: tuple[torch.Tensor, torch.Tensor | None],
    d: torch.Tensor,
    layout: torch.Tensor,
    ends: bool,
    zero: bool,
    recipes: Recipes | None,
    expected_m: int,
) -> None:
    """`recipes`: None of operands without scales. `expected_m`: 0 if nothing is expected."""
    (x, of_x), (y, of_y) = a, b
    zero = zero or not ends  # DeepGEMM stores zeros in each row of index -1, and compares them in its tests
    alignment = get_mk_alignment_for_contiguous_layout()
    key = ("contiguous", type(x), x.shape, type(y), y.shape, alignment, zero, recipes, expected_m)
    by_row, by_end = (None, layout) if ends else (layout, None)
    call = (x, y, of_x, of_y, d, by_row, by_end)
    wants = x.requires_grad or y.requires_grad or d.requires_grad
    if of_x is not None and of_y is not None:
        wants = wants or of_x.requires_grad or of_y.requires_grad
    if fast_path.launch(key, call, wants):
        return
    refuse_groups(x)
    left, right = x, y
    scales: tuple[torch.Tensor, ...] = ()
    groups: dict[str, Any] = {"group_of_row": by_row, "group_ends": by_end, "row_alignment": alignment}
    groups |= {"expected_m": expected_m, "zero_padding": zero, "out": d}
    if of_x is not None and of_y is not None and recipes is not None:
        check_types(of_x, of_y)
        left, right = k_major(x), k_major(y)
        of_both = of_operands((left, of_x), (right, of_y), *recipes, has_tcgen05(x) and not recipes[-1])
        scales, groups["scale_block"] = (of_both.rows, of_both.columns), of_both.block
    tilewright.grouped_gemm_contiguous(left, right.mT, *scales, **groups)
    if not (is_fp4(x) or is_fp4(y)) and lie_ready((x, y, of_x, of_y), (left, right, *scales)):
        op = tilewright.grouped_gemm_contiguous
        fast_path.keep(key, call, _CONTIGUOUS, op, x, y.mT, *scales, **groups)


def _expected(expected_m: int | None, ends: bool) -> int:
    """The rows of a group that are expected to count; 0 if nothing is expected."""
    if expected_m is None:
        return 0
    name = "expected_m_for_psum_layout"
    if not ends:
        raise ArgumentError(name, "it is given without use_psum_layout; leave it out where rows have indices")
    if expected_m <= 0:
        raise ArgumentError(name, f"it is {expected_m}; expected a positive number of rows")
    return expected_m


def _k_major(b: torch.Tensor) -> torch.Tensor:
    return b if b.stride(-1) == 1 else b.contiguous()
