"""Scales of FP8 operands as our kernels take them, told by DeepGEMM's recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch

from tilewright import blockwise_scales
from tilewright.calls import fast_path
from tilewright.calls.custom_ops import needs_dispatcher
from tilewright.compat.deep_gemm.fp4 import extent_k, is_fp4
from tilewright.compat.deep_gemm.utils.layout import (
    get_mn_major_tma_aligned_packed_ue8m0_tensor,
    get_mn_major_tma_aligned_tensor,
)
from tilewright.compat.deep_gemm.utils.math import ceil_div
from tilewright.errors import ArgumentError, ArgumentTypeError

# Major numbers of the compute capabilities whose products read FP32 scales of 128 of k.
HOPPER, RTX = 9, 12
ROWS = (1, 128)  # rows that may share a scale
BLOCKS = (32, 128)  # elements of k that may share one
_SCALES = frozenset([torch.float32, torch.int32, torch.float8_e8m0fnu])  # types of scales
Recipe: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]


class Scales(NamedTuple):
    """The scales of a product's operands as our ops take them."""

    rows: torch.Tensor  # of A: `scale_a`
    columns: torch.Tensor  # of B [n, k], for its transpose: `scale_b`
    block: int  # elements of k that share a packed scale: `scale_block`


def pairs(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """Both operands. Raises ArgumentTypeError unless each is a pair of tensors: its data and its scales.

    Every call pays for this. Only calls for which no launcher is kept look at types (`check_types`), because
    a launcher compares them itself.
    """
    try:
        (_, of_x), (_, of_y) = a, b
        if isinstance(of_x, torch.Tensor) and isinstance(of_y, torch.Tensor):
            return a, b
    except (TypeError, ValueError):
        pass
    name, operand = next((name, pair) for name, pair in (("a", a), ("b", b)) if not _is_pair(pair))
    actual = type(operand).__name__
    if isinstance(operand, (tuple, list)):
        actual += f" of {', '.join(type(part).__name__ for part in operand) or 'nothing'}"
    raise ArgumentTypeError(name, f"it is a {actual}; expected a pair of tensors: data and scales")


def _is_pair(operand: object) -> bool:
    return isinstance(operand, (tuple, list)) and [isinstance(x, torch.Tensor) for x in operand] == [True] * 2


def check_types(of_a: torch.Tensor, of_b: torch.Tensor) -> None:
    """Raises ArgumentTypeError unless both are of a type of scales."""
    for name, scales in (("a", of_a), ("b", of_b)):
        if scales.dtype not in _SCALES:
            expected = ", ".join(sorted(map(str, _SCALES)))
            raise ArgumentTypeError(name, f"its scales are {scales.dtype}; expected one of {expected}")


def granularities(
    recipe: Recipe | None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    *,
    packed_b: bool = False,
) -> tuple[Recipe, Recipe]:
    """Rows and elements of k that share a scale, of A and of B. Without a recipe they are DeepGEMM's
    defaults: (1, 1, 128) if B's scales are packed, else (1, 128, 128).

    Raises:
        ArgumentError: the recipe is incomplete, or no kernel here has it.
    """
    if recipe_a is None and recipe_b is None:
        m, n, k = recipe or ((1, 1, 128) if packed_b else (1, 128, 128))
        recipe_a, recipe_b = (m, k), (n, k)
    if recipe_a is None or recipe_b is None or (recipe is not None and recipe_a is None):
        raise ArgumentError("recipe", "expected recipe alone, or both recipe_a and recipe_b")
    legal = [(rows, block) for block in BLOCKS for rows in ROWS]
    for granularity in (recipe_a, recipe_b):
        if tuple(granularity) not in legal:
            recipes = f"{tuple(recipe_a)} and {tuple(recipe_b)}"
            raise ArgumentError("recipe", f"it is {recipes}; expected {', '.join(map(str, legal))} of each")
    return tuple(recipe_a), tuple(recipe_b)


def of_operands(
    a: Sequence[torch.Tensor],
    b: Sequence[torch.Tensor],
    recipe: Recipe | None = None,
    recipe_a: Recipe | None = None,
    recipe_b: Recipe | None = None,
    disable_ue8m0_cast: bool = False,
    packs: bool = False,
) -> Scales:
    """The scales of A [..., m, k] and of B [..., n, k], whose k is contiguous. Both are FP32 scales of 128 of
    k; or, if either is packed or of 32 of k, both are packed, of the smaller number of k. Beside FP4 both are
    packed, of 32 of k. Only kernels for GPUs of 10.x and 12.x read packed ones. `packs`: they read no others.

    Raises:
        ArgumentError: a recipe or a tensor is none that kernels read.
    """
    (x, of_x), (y, of_y) = a, b
    packed = [scales.dtype == torch.int32 for scales in (of_x, of_y)]
    of_a, of_b = granularities(recipe, recipe_a, recipe_b, packed_b=packed[1])
    block = BLOCKS[0] if is_fp4(x) or is_fp4(y) else min(of_a[1], of_b[1])
    if not any(packed) and block == blockwise_scales.BLOCK and not packs:
        if of_a[0] != 1:
            raise ArgumentError("recipe", f"A's is {of_a}; expected (1, 128) of FP32 scales")
        return Scales(of_rows(of_x), of_weights(of_y, of_b), block)
    if disable_ue8m0_cast and not all(packed):
        message = (
            "it is True; FP32 scales of 32 of k, beside packed ones, or on GPUs of 10.x have to be packed"
        )
        raise ArgumentError("disable_ue8m0_cast", message)
    rows = words("a", of_x, of_a, block, x.shape[-2], extent_k(x))
    return Scales(rows, words("b", of_y, of_b, block, y.shape[-2], extent_k(y)).mT, block)


def words(
    operand: str, scales: torch.Tensor, granularity: Recipe, block: int, rows: int, k: int
) -> torch.Tensor:
    """Scales as packed ones of `block` of k for each row: words that lie so are answered as they are.

    `rows` and `k`: the extents of the matrix, whose name is `operand`.
    """
    shared_rows, shared_k = granularity
    repeats, blocks = shared_k // block, ceil_div(k, block)
    in_column = blockwise_scales.SCALES_PER_WORD if scales.dtype == torch.int32 else 1
    expected = (ceil_div(rows, shared_rows), ceil_div(k, shared_k * in_column))
    if scales.shape[-2:] != expected:
        message = f"its scales have shape {tuple(scales.shape[-2:])}; expected {expected} by {granularity}"
        raise ArgumentError(operand, message)
    if scales.dtype != torch.int32:
        if repeats > 1:
            scales = scales.repeat_interleave(repeats, dim=-1)[..., :blocks]
        if shared_rows > 1:
            scales = scales.repeat_interleave(shared_rows, dim=-2)[..., :rows, :]
        return get_mn_major_tma_aligned_packed_ue8m0_tensor(scales)
    if shared_rows > 1:
        recipe = f"packed scales of {operand} are those of single rows"
        raise ArgumentError("recipe", f"{operand}'s is {granularity}; {recipe}: expected (1, {shared_k})")
    if repeats > 1:
        scales = spread_words(scales)[..., : blockwise_scales.words(blocks)]
    return of_words(scales)


def spread_words(scales: torch.Tensor) -> torch.Tensor:
    """Words [..., w] of 128 of k as words [..., 4 w] of 32 of k, each with one exponent four times."""
    shifts = torch.arange(0, 32, 8, dtype=torch.int32, device=scales.device).unsqueeze(1)
    return repeated((scales.mT.unsqueeze(-2) >> shifts & 0xFF).flatten(-3, -2)).mT


def repeated(exponents: torch.Tensor) -> torch.Tensor:
    """Words that hold an exponent four times."""
    return exponents | exponents << 8 | exponents << 16 | exponents << 24


def of_words(scales: torch.Tensor) -> torch.Tensor:
    """Words [..., m, w] with columns that TMA reads, by a kernel where they lie otherwise."""
    return get_mn_major_tma_aligned_tensor(scales.view(torch.float32)).view(torch.int32)


def of_rows(scales: torch.Tensor) -> torch.Tensor:
    """[..., m, k/128] with columns that TMA reads, by a kernel where they lie otherwise."""
    return get_mn_major_tma_aligned_tensor(scales)


def of_weights(scales: torch.Tensor, granularity: Recipe) -> torch.Tensor:
    """The scales of B [n, k], for its transpose."""
    return (of_rows(scales) if granularity[0] == 1 else scales).mT


def lie_ready(passed: Sequence[torch.Tensor | None], used: Sequence[torch.Tensor]) -> bool:
    """Whether all scales are used in the layout in which the caller passed them. False for tensors without
    memory, for which no launcher is kept."""
    pairs = zip(passed, used, strict=False)
    return not (fast_path.traced() or needs_dispatcher(*passed)) and all(
        scales is None or scales.data_ptr() == laid_out.data_ptr() for scales, laid_out in pairs
    )


def transform_sf_into_required_layout(
    sf: torch.Tensor,
    mn: int,
    k: int,
    recipe: Recipe,
    num_groups: int | None = None,
    is_sfa: bool | None = None,
    disable_ue8m0_cast: bool = False,
    psum_layout: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scales as kernels of this GPU read them: FP32 on Hopper, for 128 of k on GPUs of 12.x, and with
    `disable_ue8m0_cast`; else packed.

    Args:
        sf: float32 [ceil(mn / gran_mn), ceil(k / gran_k)], or int32 words of four; groups first, if any.
        mn, k: extents of the matrix.
        recipe: (gran_mn, gran_k); or (gran_m, gran_n, gran_k), of which `is_sfa` says if the first is meant.
        psum_layout: of rows in groups, as `get_mn_major_tma_aligned_packed_ue8m0_tensor` takes it.

    Raises:
        ArgumentError: the shape is not the recipe's, or there is no such layout.
    """
    if len(recipe) == 3:
        if is_sfa is None:
            raise ArgumentError("is_sfa", "it is None; a recipe of three requires it")
        recipe = (recipe[0 if is_sfa else 1], recipe[2])
    gran_mn, gran_k = recipe
    packed = sf.dtype == torch.int32
    groups = () if num_groups is None else (num_groups,)
    per_column = gran_k * (blockwise_scales.SCALES_PER_WORD if packed else 1)
    expected = (*groups, ceil_div(mn, gran_mn), ceil_div(k, per_column))
    if tuple(sf.shape) != expected:
        raise ArgumentError("sf", f"its shape is {tuple(sf.shape)}; expected {expected}")
    if packed and gran_mn == 1 and blockwise_scales.lies_m_major(sf):
        return sf
    major = torch.cuda.get_device_capability(sf.device)[0]
    floats = disable_ue8m0_cast or major == HOPPER or (major == RTX and gran_k == 128)
    if sf.dtype == torch.float32 and floats and gran_k == 128 and gran_mn in (1, 128):
        return of_rows(sf) if gran_mn == 1 else sf
    if sf.dtype == torch.float32 and not floats and gran_k in (32, 128):
        rows = sf if gran_mn == 1 else sf.repeat_interleave(gran_mn, dim=-2)[..., :mn, :]
        return get_mn_major_tma_aligned_packed_ue8m0_tensor(rows, psum_layout)
    raise ArgumentError("recipe", f"it is {tuple(recipe)} of {sf.dtype}, for which there is no layout")
