"""Products of groups along k: FP8 with scales, and BF16."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.calls import fast_path
from tilewright.compat.deep_gemm import block_scaled
from tilewright.compat.deep_gemm.fp4 import is_fp4
from tilewright.compat.deep_gemm.gpus import has_tcgen05
from tilewright.compat.deep_gemm.scales import (
    Pair,
    Recipe,
    Scales,
    check_types,
    granularities,
    lie_ready,
    of_operands,
    pairs,
    repeated,
    words,
)
from tilewright.compat.deep_gemm.settings import get_mk_alignment_for_contiguous_layout
from tilewright.compat.deep_gemm.utils.math import ceil_div
from tilewright.errors import ArgumentError

STAGE = 64  # elements of k that a kernel of 16 bits multiplies together
BLOCK = 128  # that share a scale
FACTOR = 32  # that share a factor by which tcgen05 multiplies

_CALL = ("a", "b", "scale_a", "scale_b", "c", "out", "group_k")


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
        a: each group's [m, k_g], one after the other in one dimension; scales float32 [m, k of all groups /
            128]. Or, on GPUs of 10.x, 11.x and 12.x, scales of 32 of k, or int32 words of four scales of 32
            or 128 of k, of which each group begins with a new word. GPUs of 10.x and 11.x multiply by powers
            of two alone: without `ks_cpu` float32 scales lose their mantissas there.
        b: likewise, of n.
        ks_cpu: each group's k, if the caller knows it on the host: then it is checked. Ignored with
            `use_psum_layout`.
        grouped_layout: int32 [groups], on the device: each group's k, a multiple of 128, 0 too; or
            (`use_psum_layout`) each group's end, of groups that begin at multiples of 128, between which k is
            0. Read when the kernel runs.

    Raises:
        ArgumentError: an operand is wrong; a k in `ks_cpu` is no multiple of 128, or they are not those of
            all groups of the operands; or, of ends, the alignment
            (`set_mk_alignment_for_contiguous_layout`) is not 128.
    """
    if ks_cpu and not use_psum_layout and any(k % BLOCK for k in ks_cpu):
        raise ArgumentError("ks_cpu", f"expected multiples of {BLOCK}, got {list(ks_cpu)}")
    if use_psum_layout:
        grouped_layout = _sizes_of_ends(grouped_layout, BLOCK, scaled=True)
    (x, of_x), (y, of_y) = pairs(a, b)
    key = ("k_grouped", type(x), x.shape, type(y), y.shape, recipe)
    call = (x, y, of_x, of_y, c, d, grouped_layout)
    wants = x.requires_grad or y.requires_grad or of_x.requires_grad or of_y.requires_grad or d.requires_grad
    if fast_path.launch(key, call, wants or (c is not None and c.requires_grad)):
        return
    check_types(of_x, of_y)
    for name, operand in (("a", x), ("b", y)):
        if is_fp4(operand):
            message = (
                f"it is {operand.dtype}; no kernel multiplies groups of k of FP4, whose rows end in bytes"
            )
            raise ArgumentError(name, f"{message} of two: expected torch.float8_e4m3fn")
    m, n = d.shape[1:]
    k = _total_k(x, m, of_x, granularities(recipe)[0][1])
    if ks_cpu and not use_psum_layout and m:
        _check_sizes(ks_cpu, len(d), k)
    left, right = _matrix("a", x, m, k), _matrix("b", y, n, k)
    if has_tcgen05(x) and ks_cpu and not use_psum_layout:
        _one_by_one((left.flatten(), of_x), (right.flatten(), of_y), d, ks_cpu, c, recipe)
        return
    rows, columns, block = _scales((left, of_x), (right, of_y), grouped_layout, recipe)
    operands = left, right.mT, grouped_layout, rows, columns
    tilewright.grouped_gemm_k(*operands, out=d, c=c, scale_block=block)
    if lie_ready((of_x, of_y), (rows, columns)):
        op = tilewright.grouped_gemm_k
        fast_path.keep(key, call, _CALL, op, *operands, out=d, c=c, scale_block=block)


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
    """Same as `k_grouped_fp8_gemm_nt_contiguous`, with a [k of all groups, m], b [k of all groups, n] and
    scales [k of all groups / 128, .]. A kernel transposes the groups, by their sizes on the device."""
    if use_psum_layout:
        grouped_layout = _sizes_of_ends(grouped_layout, BLOCK, scaled=True)
    turned = [
        (tilewright.transpose_fp8(data, grouped_layout).flatten(), scales.mT) for data, scales in pairs(a, b)
    ]
    sizes = None if use_psum_layout else ks_cpu
    k_grouped_fp8_gemm_nt_contiguous(turned[0], turned[1], d, sizes, grouped_layout, c, recipe)


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
    """Same as `k_grouped_fp8_gemm_tn_contiguous`, for bfloat16, which is read without a copy: by one
    launch with sizes on the device, if the host has no sizes or they are multiples of 64, and TMA can read
    the operands; else by one launch for each group. The alignment of ends is a multiple of 64."""
    if use_psum_layout:
        ks_cpu, grouped_layout = None, _sizes_of_ends(grouped_layout, STAGE)
    in_stages = not ks_cpu or not any(k % STAGE for k in ks_cpu)
    one_by_one = has_tcgen05(a) and bool(ks_cpu)
    if (
        in_stages
        and not one_by_one
        and d.dtype == torch.float32
        and not any(x.shape[1] % 8 or x.stride(0) % 8 for x in (a, b))
    ):
        key = ("k_grouped", type(a), a.shape, type(b), b.shape)
        call = (a, b, None, None, c, d, grouped_layout)
        wants = a.requires_grad or b.requires_grad or d.requires_grad
        if not fast_path.launch(key, call, wants or (c is not None and c.requires_grad)):
            if ks_cpu:
                _check_sizes(ks_cpu, len(d), len(a))
            operands = a.mT, b, grouped_layout
            tilewright.grouped_gemm_k(*operands, out=d, c=c)
            fast_path.keep(key, call, _CALL, tilewright.grouped_gemm_k, *operands, out=d, c=c)
        return
    if not ks_cpu:
        raise ArgumentError("ks_cpu", "expected each group's k on the host")
    _check_sizes(ks_cpu, len(d), len(a))
    beta = 0.0 if c is None else 1.0
    for group, (start, k) in enumerate(zip(_starts(ks_cpu), ks_cpu, strict=True)):
        added = None if c is None else c[group]
        left, right = a[start : start + k].mT, b[start : start + k]
        tilewright.gemm(left, right, out=d[group], c=added, beta=beta)


def _check_sizes(sizes: Sequence[int], groups: int, k: int) -> None:
    """Raises ArgumentError unless the host's sizes are those of all groups."""
    if len(sizes) != groups or any(size < 0 for size in sizes) or sum(sizes) != k:
        message = f"expected the k of {groups} groups, which add up to {k}; got {list(sizes)}"
        raise ArgumentError("ks_cpu", message)


def _one_by_one(
    a: Pair, b: Pair, d: torch.Tensor, sizes: Sequence[int], c: torch.Tensor | None, recipe: Recipe
) -> None:
    """A block-scaled product for each group, by sizes on the host. Data are flat; scales [., columns] are
    those that `recipe` says, and each group begins with a new column, also of packed ones."""
    m, n = d.shape[1:]
    blocks_a, blocks_b = (
        _column_slices(scales, block, sizes)
        for (_, scales), (_, block) in zip((a, b), granularities(recipe), strict=True)
    )
    for group, (start, k) in enumerate(zip(_starts(sizes), sizes, strict=True)):
        added = None if c is None else c[group]
        if k == 0:
            d[group].copy_(added) if added is not None else d[group].zero_()
            continue
        left, right = (
            (data[rows * start : rows * (start + k)].view(rows, k), scales[:, blocks[group]])
            for (data, scales), rows, blocks in ((a, m, blocks_a), (b, n, blocks_b))
        )
        block_scaled.multiply(left, right, d[group], added, recipe)


def _column_slices(scales: torch.Tensor, block: int, sizes: Sequence[int]) -> list[slice]:
    """The columns that hold each group's scales of `block` elements of k, or words of four."""
    in_column = block * (blockwise_scales.SCALES_PER_WORD if scales.dtype == torch.int32 else 1)
    counts = [ceil_div(size, in_column) for size in sizes]
    return [slice(start, start + count) for start, count in zip(_starts(counts), counts, strict=True)]


def _sizes_of_ends(ends: torch.Tensor, unit: int, *, scaled: bool = False) -> torch.Tensor:
    """Each group's k with the zeros after it, on the device. The scales of one group's blocks directly follow
    those of the group before."""
    alignment = get_mk_alignment_for_contiguous_layout()
    if alignment % unit or (scaled and alignment != unit):
        expected = f"expected {unit}" if scaled else f"expected a multiple of {unit}"
        raise ArgumentError(
            "use_psum_layout", f"groups along k begin at multiples of {alignment}; {expected}"
        )
    aligned = (ends + (alignment - 1)) // alignment * alignment
    return aligned.diff(prepend=aligned.new_zeros(1))


def _scales(a: Pair, b: Pair, sizes: torch.Tensor, recipe: Recipe) -> Scales:
    """The scales of matrices [rows, k] whose k is divided among groups of these sizes."""
    of_a, of_b = granularities(recipe)
    x, of_x = _spread(a, sizes, of_a)
    y, of_y = _spread(b, sizes, of_b)
    if not has_tcgen05(x[0]):
        return of_operands(x, y, None, of_x, of_y)
    rows, columns = (
        words(name, scales, granularity, FACTOR, *matrix.shape)
        for name, (matrix, scales), granularity in (("a", x, of_x), ("b", y, of_y))
    )
    return Scales(rows, columns.mT, FACTOR)


def _spread(operand: Pair, sizes: torch.Tensor, granularity: Recipe) -> tuple[Pair, Recipe]:
    """The operand with packed scales for 32 of k, if its scales are packed, and what they cover."""
    matrix, scales = operand
    if scales.dtype != torch.int32:
        return operand, granularity
    blocks = matrix.shape[1] // BLOCK
    words = _spread_words(scales, sizes, blocks) if granularity[1] == BLOCK else scales[:, :blocks]
    return (matrix, words), (granularity[0], 32)


def _spread_words(scales: torch.Tensor, sizes: torch.Tensor, blocks: int) -> torch.Tensor:
    """Converts packed scales for 128 of k, [rows, words], where each group begins with a new word, to words
    for 32 of k, [rows, `blocks`], where word i belongs to block i of k."""
    of_group = sizes // BLOCK
    own_words = (of_group + 3) // 4
    ends, first_word = of_group.cumsum(0), own_words.cumsum(0) - own_words
    block = torch.arange(blocks, device=scales.device)
    group = torch.searchsorted(ends, block, right=True).clamp(max=len(sizes) - 1)
    in_group = block - (ends - of_group)[group]
    at = (first_word[group] + in_group // 4).clamp(max=max(scales.shape[1] - 1, 0))
    return repeated(scales.mT[at] >> (in_group % 4 * 8).int().unsqueeze(1) & 0xFF).mT


def _total_k(operand: torch.Tensor, rows: int, scales: torch.Tensor, block: int) -> int:
    """The k of all groups: by the scales; if they are packed, by the operand, because words may be unused."""
    k: int = scales.shape[-1] * block if scales.dtype != torch.int32 else operand.numel() // max(rows, 1)
    return k


def _matrix(name: str, flat: torch.Tensor, rows: int, k: int) -> torch.Tensor:
    """A one-dimensional operand as a matrix, with the k that the scales have."""
    if flat.numel() != rows * k:
        raise ArgumentError(name, f"it has {flat.numel()} elements; expected {rows} rows of {k}")
    return flat.view(rows, k)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][:-1]
