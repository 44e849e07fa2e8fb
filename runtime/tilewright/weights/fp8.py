"""Weights of E4M3, as DeepSeek, ModelOpt, vLLM and compressed-tensors write them."""

from __future__ import annotations

import torch

from tilewright.errors import ArgumentError
from tilewright.weight_formats import WHOLE_ROW
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import check_block, check_dtype


def from_fp8(
    weight: torch.Tensor, scale: torch.Tensor, *, block: tuple[int, int] = (128, 128)
) -> QuantizedWeight:
    """Reads E4M3 with scales that multiply: a layer [n, k], or a stack of experts [experts, n, k].

    | checkpoint | scales |
    |---|---|
    | DeepSeek-V3, Qwen3 | `weight_scale_inv` float32 [ceil(n/128), ceil(k/128)] |
    | DeepSeek-V4 | `scale` float8_e8m0fnu [ceil(n/128), ceil(k/128)] |
    | compressed-tensors' `float-quantized`, FBGEMM | `weight_scale` [n, 1] or [n] |
    | ModelOpt, compressed-tensors | `weight_scale`, one element |

    `weight_scale_inv` multiplies, too, in spite of its name. Scales of blocks are repeated for the rows of a
    block. UE8M0 becomes float32, which holds it exactly.

    Args:
        weight: float8_e4m3fn [..., n, k].
        scale: float32, bfloat16, float16 or float8_e8m0fnu: [..., ceil(n/block[0]), ceil(k/block[1])],
            [..., n, 1], [..., n], or one element.
        block: rows and columns of a block (`weight_block_size`).

    Raises:
        ArgumentError: shapes that do not go together.
    """
    check_dtype("weight", weight, (torch.float8_e4m3fn,))
    check_dtype("scale", scale, (torch.float32, torch.bfloat16, torch.float16, torch.float8_e8m0fnu))
    if weight.ndim not in {2, 3} or 0 in weight.shape:
        shape = tuple(weight.shape)
        raise ArgumentError("weight", f"expected [n, k] or [experts, n, k], none of them 0, got {shape}")
    check_block(block)
    if scale.dtype == torch.float8_e8m0fnu:
        scale = scale.float()
    scales, group = _of_rows(scale, tuple(weight.shape), block)
    return QuantizedWeight(
        codes=weight.contiguous().view(torch.uint8), scales=scales.contiguous(), group=group, format="e4m3"
    )


def _of_rows(scale: torch.Tensor, shape: tuple[int, ...], block: tuple[int, int]) -> tuple[torch.Tensor, int]:
    """The scales of every row [..., n, columns], and the columns of W that share one."""
    *batch, n, k = shape
    if scale.numel() == 1:
        return scale.reshape([1] * len(shape)).expand(*batch, n, 1), WHOLE_ROW
    if tuple(scale.shape) == (*batch, n, 1):
        return scale, WHOLE_ROW
    if tuple(scale.shape) == (*batch, n):
        return scale.unsqueeze(-1), WHOLE_ROW
    rows, columns = block
    blocks = (*batch, -(-n // rows), -(-k // columns))
    if tuple(scale.shape) != blocks:
        raise ArgumentError(
            "scale",
            f"expected {blocks} (blocks of {rows} x {columns}), {(*batch, n, 1)} (rows) or one element, "
            f"got {tuple(scale.shape)}",
        )
    return scale.repeat_interleave(rows, dim=-2)[..., :n, :], columns
