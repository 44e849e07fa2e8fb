"""Weights of E2M1 as gpt-oss, DeepSeek, ModelOpt and compressed-tensors write them."""

from __future__ import annotations

import torch

from tilewright.errors import ArgumentError
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import check_dtype, check_readable, check_shape, fields

_PAIRS = (torch.uint8, torch.int8, torch.float4_e2m1fn_x2)
_MX_BLOCK, _NV_BLOCK = 32, 16


def from_mxfp4(blocks: torch.Tensor, scales: torch.Tensor) -> QuantizedWeight:
    """Reads MXFP4: a layer [n, k], or a stack of experts [experts, n, k].

    The low four bits of a byte are the E2M1 code of the even one of its two columns. Checkpoints name the
    tensors differently:

    | checkpoint | codes | scales |
    |---|---|---|
    | gpt-oss | `*_blocks` uint8 [experts, n, k/32, 16] | `*_scales` uint8 [experts, n, k/32] |
    | DeepSeek-V4, each expert | `weight` int8 [n, k/2] | `scale` float8_e8m0fnu [n, k/32] |
    | `mxfp4-pack-quantized` | `weight_packed` uint8 [n, k/2] | `weight_scale` uint8 [n, k/32] |

    The last one is a format of compressed-tensors.

    Args:
        blocks: the codes, of one byte an element: [..., n, k/32, 16] or [..., n, k/2].
        scales: UE8M0 [..., n, k/32], as uint8 or float8_e8m0fnu: 2^(byte - 127), and 255 is NaN.

    Raises:
        ArgumentError: shapes that do not go together.
    """
    check_dtype("blocks", blocks, _PAIRS)
    check_dtype("scales", scales, (torch.uint8, torch.float8_e8m0fnu))
    data = blocks.view(torch.uint8)
    if data.ndim == scales.ndim + 1:
        shape = (*scales.shape, _MX_BLOCK // 2)
        check_shape("blocks", blocks, shape, "16 bytes for each scale")
        data = data.flatten(-2)
    codes = _codes(("blocks", data), ("scales", scales), _MX_BLOCK)
    return QuantizedWeight(
        codes=codes, scales=scales.contiguous().view(torch.float8_e8m0fnu), group=_MX_BLOCK, format="mxfp4"
    )


def from_modelopt_nvfp4(
    weight: torch.Tensor, weight_scale: torch.Tensor, weight_scale_2: torch.Tensor
) -> QuantizedWeight:
    """Reads a layer of ModelOpt's NVFP4: W = E2M1 * weight_scale * weight_scale_2.

    Args:
        weight: uint8 [n, k/2]: the low four bits of byte c are the E2M1 code of column 2 c. Also a stack of
            experts [experts, n, k/2].
        weight_scale: float8_e4m3fn [n, k/16], row-major (not swizzled). Of a stack [experts, n, k/16].
        weight_scale_2: float32, one element, or one for each expert of a stack.

    Raises:
        ArgumentError: shapes that do not go together.
    """
    check_dtype("weight", weight, _PAIRS)
    check_readable("weight_scale_2", weight_scale_2, torch.float32)
    factors = weight_scale_2.flatten().tolist()
    if len(factors) == 1:
        return nvfp4(("weight", weight), ("weight_scale", weight_scale), factors[0])
    if weight.ndim != 3:
        shape = tuple(weight_scale_2.shape)
        raise ArgumentError("weight_scale_2", f"expected one element for one weight, got shape {shape}")
    return nvfp4(("weight", weight), ("weight_scale", weight_scale), tuple(factors))


def nvfp4(
    data: tuple[str, torch.Tensor], scales: tuple[str, torch.Tensor], factor: float | tuple[float, ...]
) -> QuantizedWeight:
    """A weight of bytes with two E2M1 codes and of E4M3 scales, both with their names for messages."""
    check_dtype(*data, _PAIRS)
    check_dtype(*scales, (torch.float8_e4m3fn,))
    codes = _codes((data[0], data[1].view(torch.uint8)), scales, _NV_BLOCK)
    return QuantizedWeight(
        codes=codes, scales=scales[1].contiguous(), group=_NV_BLOCK, format="nvfp4", global_scale=factor
    )


def _codes(data: tuple[str, torch.Tensor], scales: tuple[str, torch.Tensor], block: int) -> torch.Tensor:
    """Codes [..., n, k] of bytes [..., n, k/2], whose shape goes with that of the scales."""
    argument, octets = data
    shape = tuple(octets.shape)
    if octets.ndim not in {2, 3} or 0 in shape or shape[-1] * 2 % block:
        raise ArgumentError(argument, f"expected [n, k/2] or [experts, n, k/2], k % {block} = 0, got {shape}")
    expected = (*shape[:-1], shape[-1] * 2 // block)
    check_shape(*scales, expected, f"a scale for each {block} of {2 * shape[-1]} columns")
    return fields(octets, 4)
