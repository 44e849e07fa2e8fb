"""Products of FP8 and FP4 by block-scaled kernels (`tilewright.mm_mxfp8` and its siblings).

They read UE8M0 scales of 32 of k in the 128x4 layout. `tilewright.scale_columns` converts DeepGEMM's scales
to it: powers of two in float32, or four exponents in an int32 word, for 32 or 128 of k, for a row or for 128.
Scales of float8_e8m0fnu are taken to lie in that layout already.
"""

from __future__ import annotations

import functools

import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.compat.deep_gemm.fp4 import extent_k, is_fp4, k_major
from tilewright.compat.deep_gemm.gpus import has_tcgen05, is_hopper
from tilewright.compat.deep_gemm.kept_scales import kept
from tilewright.compat.deep_gemm.scales import BLOCKS, Recipe, granularities
from tilewright.compat.deep_gemm.utils.math import ceil_div
from tilewright.errors import ArgumentError

Pair = tuple[torch.Tensor, torch.Tensor]

NAN = 255  # as UE8M0


def needed(
    a: Pair,
    b: Pair,
    recipe: Recipe | None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
) -> bool:
    """Whether a product needs block-scaled kernels: on a GPU without other scaled FP8 products; on Hopper if
    an operand is FP4, or if scales are not float32 or cover 32 of k."""
    if has_tcgen05(a[0]):
        return True
    if not is_hopper(a[0]):
        return False
    narrow = any(is_fp4(data) for data, _ in (a, b))
    packed = any(scales.dtype != torch.float32 for _, scales in (a, b))
    shared = granularities(recipe, recipe_a, recipe_b)
    return narrow or packed or any(block == BLOCKS[0] for _, block in shared)


def multiply(
    a: Pair,
    b: Pair,
    d: torch.Tensor,
    c: torch.Tensor | None,
    recipe: Recipe | None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    *,
    casts: bool = True,
) -> None:
    """d [..., m, n] = a [..., m, k] b [..., n, k]^T + c.

    Args:
        a, b: data and scales. The converted scales of b are kept (`kept_scales`).
        casts: whether float32 scales may be read as UE8M0.

    Raises:
        ArgumentError: an operand is wrong, or scales of b are no powers of two. Those of a become NaN where
            they are none, because to look at them would make each call wait for the GPU.
    """
    of_a, of_b = granularities(recipe, recipe_a, recipe_b, packed_b=b[1].dtype == torch.int32)
    (x, of_x), (y, of_y) = _operand("a", a, of_a, casts=casts), _operand("b", b, of_b, casts=casts)
    op = {0: tilewright.mm_mxfp8, 2: tilewright.mm_mxfp4}.get(
        sum(data.dtype == torch.uint8 for data in (x, y)), tilewright.mm_mxfp8_mxfp4
    )
    op(x, y.mT, of_x, of_y, out_dtype=d.dtype, out=d, c=c)


def _operand(argument: str, pair: Pair, granularity: Recipe, *, casts: bool) -> Pair:
    """Data with k contiguous, FP4 as bytes, and the scales as block-scaled kernels read them."""
    data, scales = pair
    data = k_major(data)
    if scales.dtype == torch.float8_e8m0fnu:
        return data, scales
    rows, k = data.shape[-2], extent_k(data)
    if scales.dtype == torch.float32 and not casts:
        message = "these tensor cores multiply by UE8M0 scales alone; expected False"
        raise ArgumentError("disable_ue8m0_cast", message)
    per_column = granularity[1] * (blockwise_scales.SCALES_PER_WORD if scales.dtype == torch.int32 else 1)
    expected = (*data.shape[:-2], ceil_div(rows, granularity[0]), ceil_div(k, per_column))
    if scales.shape != expected:
        message = f"its scales have shape {tuple(scales.shape)}; expected {expected} by {granularity}"
        raise ArgumentError(argument, message)
    options = (granularity[1], rows, k)
    convert = functools.partial(_converted, scales, *options)
    if argument == "a":  # activations: other ones in each call
        return data, convert()
    return data, kept(scales, options, convert, functools.partial(_check_powers, argument, scales))


def _converted(scales: torch.Tensor, block: int, rows: int, k: int) -> torch.Tensor:
    converted: torch.Tensor = tilewright.scale_columns(scales, layout="128x4", block=block, rows=rows, k=k)
    return converted


def _check_powers(argument: str, scales: torch.Tensor, converted: torch.Tensor) -> None:
    """Raises ArgumentError if a float became NaN, because it is no power of two. Waits for the GPU."""
    if scales.dtype == torch.float32 and bool((converted.view(torch.uint8) == NAN).any()):
        raise ArgumentError(
            argument,
            "some of its scales are not positive powers of two, and these tensor cores multiply by no "
            "others; quantise with use_ue8m0=True, which rounds scales up before it divides data by them",
        )
