"""The public ops: products with scale factors, and products of rows that belong to groups.

All compute D[m,n] = sum over k of A[m,k] * scale_a[m,k/128] * B[g,k,n] * scale_b[g,k/128,n or n/128], plus
C, where g is the group of row m. They differ in who says which rows are of which group.
"""

from __future__ import annotations

import torch

from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm.call import Product, ProductOfHeads, ProductOfParts


@public(ProductOfHeads("none"))
def scaled_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    head_left: int = 0,
    head_gap: int = 0,
    head_right: int = 0,
    scale_block: int = 128,
    constant_b: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes (a * scale_a) @ (b * scale_b) + c on the current stream, of FP8 whose elements share F32 scale
    factors along 128 of k. Sums of 128 of k are scaled and added up in F32.

    Args:
        a: [m, k], or [batch, m, k], row-major. float8_e4m3fn.
        b: [k, n], or [batch, k, n], column-major: the transpose of a weight [n, k]. An operand without
            batch, or with a batch stride of 0, serves every batch. k is a multiple of 16, n of 8 (float32
            D: of 4).
        scale_a: [m, ceil(k/128)], or with a batch first: those of 128 of k of a row, columns contiguous and
            at multiples of 4 rows (`quantize_fp8_blockwise` makes them so; see
            `tilewright.blockwise_scales`). float32.
        scale_b: [ceil(k/128), ceil(n/128)]: those of blocks of 128 x 128, with either dimension contiguous;
            or [ceil(k/128), n]: those of 128 of k of a column, with n contiguous and rows at multiples of
            4: the transpose of a weight's. float32.
        out: [m, n] or [batch, m, n], rows contiguous; made if absent. It may be c, and overlaps nothing else.
        out_dtype: D's type where `out` is absent: bfloat16 (the default) or float32.
        c: D's type and shape, added to it.
        head_left, head_gap, head_right: D's columns come in heads of head_left + head_right, and behind the
            first `head_left` of each head D has `head_gap` columns more, which are not written: multiples of
            8, of D of bfloat16, without c. 0: none are skipped.
        scale_block: on GPUs of 12.x, and of groups on those of 10.x, scale factors may be UE8M0, four to a
            word (int32), for 32 or 128 of k of each row and column: scale_a [m, ceil(k/scale_block/4)] and
            scale_b [ceil(k/scale_block/4), n], m and n contiguous, as `scale_columns` packs them. The number
            says which: words do not tell. It means nothing beside float32. With words for 32, either operand
            or both may be FP4, two elements to a byte, the even index in the low nibble: a [m, k/2] and b
            [k/2, n] of float4_e2m1fn_x2 or uint8, k a multiple of 32.
        constant_b: a promise that nothing which is enqueued on the stream and may still run writes b, as
            weights that were loaded long before. Some kernels then load the first of b before the previous
            kernel has ended. If it is untrue, the result may be that of b's former values.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m, n or the batch is 0; c, or 0, where k is 0.

    Raises:
        AlignmentError: an operand that TMA cannot read or write; none is copied.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(Product("", "group_of_row", "group_ends"))
def grouped_gemm_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    row_alignment: int = 128,
    expected_m: int = 0,
    zero_padding: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    scale_block: int = 128,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Multiplies each row of a by the b of its group, as `scaled_gemm` does, or without scale factors in
    BF16. The rows of all groups lie in one matrix. The groups are read on the device when the kernel runs, so
    that a CUDA graph can be replayed with others.

    Args:
        a: [m, k], row-major. float8_e4m3fn, or bfloat16 without scale factors. What padding holds, NaN too,
            reaches no other row.
        b: [groups, k, n], each column-major; of bfloat16 it may be row-major.
        scale_a: [m, ceil(k/128)], as `scaled_gemm` takes it.
        scale_b: [groups, ceil(k/128), ceil(n/128)] or [groups, ceil(k/128), n], likewise.
        group_of_row: int32 [m]: the group of each row; a number that is no group's, as -1, is padding. Any
            order is right; it is fast where rows of a group lie together. On GPUs of 10.x, groups begin at
            multiples of 128 rows: 128 rows of several groups become NaN.
        group_ends: int32 [groups], instead: the row after each group's last. A group begins where the one
            before it ends, at the next multiple of `row_alignment`.
        row_alignment: the multiple, itself one of 4 for FP8; with group_of_row it helps to choose a kernel,
            and changes no result.
        expected_m: with group_ends: how many rows of a group are likely to count, where a has room for more;
            0: all. It helps to choose a kernel, and changes no result.
        zero_padding: whether all rows of padding are zeroed, those after the last group too.
        out: [m, n]. Without `zero_padding`, rows of padding are zeroed, or stay as they are where no row near
            them counts.

    Returns, raises, and the rest: as `scaled_gemm`.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(Product("rows_valid", "rows_valid"))
def grouped_gemm_masked(
    a: torch.Tensor,
    b: torch.Tensor,
    rows_valid: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    expected_m: int = 0,
    zero_padding: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    scale_block: int = 128,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Multiplies as `grouped_gemm_contiguous` does, where each group has a matrix of rows, of which the first
    `rows_valid` count.

    Args:
        a: [groups, m, k], each row-major.
        rows_valid: int32 [groups], on the device, read when the kernel runs.
        scale_a: [groups, m, ceil(k/128)].
        expected_m: how many rows of a group are likely to count; 0: all. It helps to choose a kernel, and
            changes no result.
        zero_padding: whether all rows that do not count are zeroed.
        out: [groups, m, n]. Without `zero_padding`, rows that do not count are zeroed, or stay as they are
            where no row near them counts.

    Returns, raises, and the rest: as `grouped_gemm_contiguous`.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(ProductOfParts("k_sizes", "group_k"))
def grouped_gemm_k(
    a: torch.Tensor,
    b: torch.Tensor,
    group_k: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
    c: torch.Tensor | None = None,
    scale_block: int = 128,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Multiplies each group's part of k, on the current stream: gradients of the weights of a mixture of
    experts. out[g] = sum over the k of group g of (a * scale_a) @ (b * scale_b), plus c[g].

    Args:
        a: [m, k]. bfloat16: column-major, the transpose of [k, m], whose first rows are the first group's.
            float8_e4m3fn: the memory of [m, k of the group], row-major, of one group after the other: a
            tensor without gaps, of whose shape m and the k of all groups are read.
        b: [k, n]. bfloat16: row-major. float8_e4m3fn: likewise of [n, k of the group], the transpose of a
            tensor [n, k] without gaps.
        group_k: int32 [groups], on the device, read when the kernel runs: multiples of 128 (bfloat16: of
            64), 0 too, which add up to k. An entry that is no multiple counts as the multiple below it, and
            the next group begins after that multiple.
        scale_a: of FP8, float32 [m, k/128]: those of 128 of k of a row, columns contiguous and at multiples
            of 4 rows; the columns of one group after those of the other.
        scale_b: of FP8, float32 [k/128, n], n contiguous and rows at multiples of 4.
        out: float32 [groups, m, n], rows contiguous; made if absent. It may be c: then the product is added.
        c: float32 [groups, m, n].
        scale_block: of packed scale factors, which are those of 32 of k here: 32. See `scaled_gemm`.
        tactic: a kernel's name, or a tactic, instead of the one the model selects.

    Returns:
        D: c, or zeros, of a group without k.
    """
    raise AssertionError("`calls.protocol` writes the body")
