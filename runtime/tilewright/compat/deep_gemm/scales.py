"""Scales of FP8 operands as our kernels take them, told by DeepGEMM's recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from tilewright import blockwise_scales
from tilewright.calls import fast_path
from tilewright.calls.custom_ops import needs_dispatcher
from tilewright.compat.deep_gemm.utils.layout import (
    get_mn_major_tma_aligned_packed_ue8m0_tensor,
    get_mn_major_tma_aligned_tensor,
)
from tilewright.compat.deep_gemm.utils.math import ceil_div
from tilewright.errors import ArgumentError

# Major numbers of the compute capabilities whose products read FP32 scales of 128 of k.
HOPPER, RTX = 9, 12
Recipe: TypeAlias = tuple[int, ...]


def granularities(
    recipe: Recipe | None, recipe_a: Recipe | None = None, recipe_b: Recipe | None = None
) -> tuple[Recipe, Recipe]:
    """Rows and elements of k that share a scale, of A and of B. Raises ArgumentError for a recipe that no
    kernel here has."""
    if recipe_a is None and recipe_b is None:
        m, n, k = recipe or (1, 128, 128)
        recipe_a, recipe_b = (m, k), (n, k)
    if recipe_a is None or recipe_b is None or (recipe is not None and recipe_a is None):
        raise ArgumentError("recipe", "expected a recipe of both, or recipe_a and recipe_b")
    if tuple(recipe_a) != (1, 128) or tuple(recipe_b) not in ((1, 128), (128, 128)):
        recipes = f"{tuple(recipe_a)} and {tuple(recipe_b)}"
        raise ArgumentError("recipe", f"it is {recipes}; expected (1, 128), and (128, 128) or (1, 128)")
    return recipe_a, recipe_b


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
