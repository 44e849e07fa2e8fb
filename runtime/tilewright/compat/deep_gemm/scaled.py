"""FP8 and FP4 products with scales: dense ones, batches in any order, and results with gaps.

An operand is a pair: float8_e4m3fn, and scales. These are float32, one for 128 of k of each row, or of B for
each block of 128x128. On GPUs of 12.x they may also be UE8M0, for 32 or 128 of k of each row, four to a word
of int32 (`scales.of_operands`); an operand may then be FP4 (`fp4`). Where a GPU has no such kernels,
block-scaled ones compute (`block_scaled`).
"""

from __future__ import annotations

import torch

import tilewright
from tilewright.calls import fast_path
from tilewright.compat.deep_gemm import block_scaled
from tilewright.compat.deep_gemm.fp4 import is_fp4, k_major
from tilewright.compat.deep_gemm.layouts import of_layout
from tilewright.compat.deep_gemm.scales import Pair, Recipe, check_types, lie_ready, of_operands, pairs
from tilewright.errors import ArgumentError

_CALL = ("a", "b", "scale_a", "scale_b", "c", "out")


def fp8_fp4_gemm_nt(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe | None = None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """d [m, n] = a [m, k] b [n, k]^T + c; d and c bfloat16 or float32, c may be d.

    Operands that have m or n contiguous are transposed by a kernel (`tilewright.transpose_fp8`), FP4 by
    torch. `disable_ue8m0_cast`: FP32 scales of 128 of k are multiplied by as they are, on GPUs of 10.x, too,
    where `block_scaled.multiply` takes powers of two alone; without c there. Raises ArgumentError, as
    `tilewright.scaled_gemm` or `block_scaled.multiply`.
    """
    (x, of_x), (y, of_y) = pairs(a, b)
    exact = disable_ue8m0_cast and of_x.dtype == of_y.dtype == torch.float32
    key = ("fp8_gemm_nt", type(x), x.shape, type(y), y.shape, recipe, recipe_a, recipe_b, exact)
    call = (x, y, of_x, of_y, c, d)
    wants = x.requires_grad or y.requires_grad or of_x.requires_grad or of_y.requires_grad or d.requires_grad
    if fast_path.launch(key, call, wants or (c is not None and c.requires_grad)):
        return
    check_types(of_x, of_y)
    if block_scaled.needed(a, b, recipe, recipe_a, recipe_b) and not exact:
        block_scaled.multiply(a, b, d, c, recipe, recipe_a, recipe_b, casts=not disable_ue8m0_cast)
        return
    left, right = k_major(x), k_major(y)
    recipes = (recipe, recipe_a, recipe_b, disable_ue8m0_cast)
    rows, columns, block = of_operands((left, of_x), (right, of_y), *recipes)
    tilewright.scaled_gemm(left, right.mT, rows, columns, out=d, c=c, scale_block=block)
    if not (is_fp4(x) or is_fp4(y)) and lie_ready((x, y, of_x, of_y), (left, right, rows, columns)):
        op = tilewright.scaled_gemm
        fast_path.keep(key, call, _CALL, op, x, y.mT, rows, columns, out=d, c=c, scale_block=block)


fp8_fp4_gemm_nn = of_layout("nn", fp8_fp4_gemm_nt)
fp8_fp4_gemm_tn = of_layout("tn", fp8_fp4_gemm_nt)
fp8_fp4_gemm_tt = of_layout("tt", fp8_fp4_gemm_nt)

fp8_gemm_nt, fp8_gemm_nn = fp8_fp4_gemm_nt, fp8_fp4_gemm_nn
fp8_gemm_tn, fp8_gemm_tt = fp8_fp4_gemm_tn, fp8_fp4_gemm_tt


def fp8_einsum(
    expr: str,
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe = (1, 128, 128),
) -> None:
    """d = the contraction `expr` of a and b, plus c.

    Args:
        expr: `bhr,hdr->bhd` or `bhd,hdr->bhr`, whose scales are those of 128 of the summed letter of a, and
            of blocks of 128 x 128 of b; or `bhd,bhr->hdr`, whose scales [b / 128, h, .] are of 128 of b.
        recipe: (1, 128, 128); (1, 1, 128), which the last one wants; of packed scales, or of those of 32, as
            `fp8_fp4_gemm_nt` takes it.

    Raises:
        ArgumentError: the equation is another, or an operand is wrong.
    """
    (x, of_x), (y, of_y) = pairs(a, b)
    check_types(of_x, of_y)
    if expr == "bhr,hdr->bhd":
        x, of_x, d = x.transpose(0, 1), of_x.transpose(0, 1), d.transpose(0, 1)
        c = None if c is None else c.transpose(0, 1)
    elif expr == "bhd,hdr->bhr":
        x, of_x, d = x.transpose(0, 1), of_x.transpose(0, 1), d.transpose(0, 1)
        c = None if c is None else c.transpose(0, 1)
        y, of_y = y.mT, of_y.mT
    elif expr == "bhd,bhr->hdr":
        x, of_x, y, of_y = (tensor.permute(1, 2, 0) for tensor in (x, of_x, y, of_y))
    else:
        legal = "bhr,hdr->bhd, bhd,hdr->bhr, bhd,bhr->hdr"
        raise ArgumentError("expr", f"it is {expr!r}; expected one of {legal}")
    if block_scaled.needed((x, of_x), (y, of_y), recipe):
        block_scaled.multiply((x, of_x), (y, of_y), d, c, recipe)
        return
    x, y = k_major(x), k_major(y)
    rows, columns, block = of_operands((x, of_x), (y, of_y), recipe)
    tilewright.scaled_gemm(x, y.mT, rows, columns, out=d, c=c, scale_block=block)


def fp8_gemm_nt_skip_head_mid(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    head_splits: tuple[int, int, int],
    recipe: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Same as `fp8_fp4_gemm_nt`, into a d [m, heads * (left + mid + right)] with b [heads * (left +
    right), k]. Each head gets its first `left` columns, then a gap of `mid` columns that is not written,
    then its `right` columns. All three are multiples of 8. Block-scaled kernels store no gaps: their result
    is copied into d."""
    a, b = pairs(a, b)
    check_types(a[1], b[1])
    left, mid, right = head_splits
    if block_scaled.needed(a, b, recipe):
        y = k_major(b[0])
        n, head = y.shape[-2], left + right
        whole_heads = min(head_splits) >= 0 and head > 0 and n % head == 0
        if not whole_heads or d.shape[-1] != n // head * (head + mid):
            expected = f"heads of {left} + {right} columns, and of {left} + {mid} + {right} in d"
            message = f"b has {n} rows and d {d.shape[-1]} columns; expected {expected}"
            raise ArgumentError("head_splits", message)
        whole = d.new_empty((d.shape[0], n))
        block_scaled.multiply(a, (y, b[1]), whole, None, recipe, casts=not disable_ue8m0_cast)
        heads, gaps = whole.view(len(whole), -1, head), d.view(len(whole), -1, head + mid)
        gaps[..., :left] = heads[..., :left]
        gaps[..., left + mid :] = heads[..., left:]
        return
    x, y = k_major(a[0]), k_major(b[0])
    rows, columns, block = of_operands((x, a[1]), (y, b[1]), recipe, disable_ue8m0_cast=disable_ue8m0_cast)
    scaled = x, y.mT, rows, columns
    tilewright.scaled_gemm(*scaled, out=d, scale_block=block, head_left=left, head_gap=mid, head_right=right)
