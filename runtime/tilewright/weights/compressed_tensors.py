"""Weights as compressed-tensors writes them (llm-compressor): integers of 4 and 8 bits, and NVFP4.

Its `mxfp4-pack-quantized` is read by `from_mxfp4`, its `float-quantized` by `from_fp8`.
"""

from __future__ import annotations

from typing import Literal

import torch

from tilewright.errors import ArgumentError
from tilewright.weights.fp4 import nvfp4
from tilewright.weights.gptq import check_in_order
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import (
    check_bits,
    check_dtype,
    check_matrix,
    check_readable,
    check_shape,
    fields,
    fields_of_columns,
    group_size,
)

_SCALES = (torch.float16, torch.bfloat16, torch.float32)


def from_pack_quantized(
    weight_packed: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_shape: torch.Tensor,
    weight_zero_point: torch.Tensor | None = None,
    weight_g_idx: torch.Tensor | None = None,
    *,
    bits: Literal[4, 8] = 4,
    group: int | None = None,
) -> QuantizedWeight:
    """Reads a layer of the format `pack-quantized`.

    A word is an int32 of p = 32 / bits fields, the lowest bits first.

    Args:
        weight_packed: int32 [n, ceil(k/p)]: field i of word [r, c] is the code of W[r, p c + i]: the signed
            value plus 2^(bits-1).
        weight_scale: [n, ceil(k/group)], or [n, 1] for one scale a row (strategy `channel`).
        weight_shape: integers [2]: n and k.
        weight_zero_point: int32 [ceil(n/p), columns of the scales]: field i of word [r, g] is the signed
            zero point of group g of row p r + i, plus 2^(bits-1). None for symmetric weights.
        weight_g_idx: int32 [k], as in `from_gptq`, or None. A -1 in it means that the columns are in order
            (compressed-tensors 0.9.4 writes it so).
        bits, group: `num_bits` and `group_size` of the scheme; a group of None follows from the shapes.

    Raises:
        ArgumentError: shapes that do not go together; act-order (`actorder: group`).
    """
    check_dtype("weight_packed", weight_packed, (torch.int32,))
    check_dtype("weight_scale", weight_scale, _SCALES)
    check_matrix("weight_packed", weight_packed, "[n, words]")
    check_matrix("weight_scale", weight_scale, "[n, groups]")
    check_bits(bits)
    per_word = 32 // bits
    check_dtype("weight_shape", weight_shape, (torch.int32, torch.int64))
    check_readable("weight_shape", weight_shape, weight_shape.dtype)
    check_shape("weight_shape", weight_shape, (2,), "n and k")
    n, k = map(int, weight_shape.tolist())
    groups = int(weight_scale.shape[1])
    check_shape("weight_packed", weight_packed, (n, -(-k // per_word)), f"weight_shape is {n} x {k}")
    check_shape("weight_scale", weight_scale, (n, groups), f"weight_shape has {n} rows")
    size = group_size("weight_scale", k, groups, group)
    if weight_g_idx is not None:
        check_dtype("weight_g_idx", weight_g_idx, (torch.int32, torch.int64))
        check_readable("weight_g_idx", weight_g_idx, weight_g_idx.dtype)
        if not bool((weight_g_idx == -1).any()):
            check_in_order("weight_g_idx", weight_g_idx, k, size)
    zeros = None
    if weight_zero_point is not None:
        check_dtype("weight_zero_point", weight_zero_point, (torch.int32,))
        shape = (-(-n // per_word), groups)
        check_shape("weight_zero_point", weight_zero_point, shape, f"{n} rows, {per_word} in a word")
        zeros = fields_of_columns(weight_zero_point, bits)[:, :n].t().contiguous()
    return QuantizedWeight(
        codes=fields(weight_packed, bits)[:, :k].contiguous(),
        scales=weight_scale,
        group=size,
        format="int4" if bits == 4 else "int8",
        zeros=zeros,
    )


def from_int_quantized(
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero_point: torch.Tensor | None = None,
    *,
    group: int | None = None,
) -> QuantizedWeight:
    """Reads a layer of the format `int-quantized`, whose integers of 8 bits are not packed.

    Args:
        weight: int8 [n, k].
        weight_scale: [n, ceil(k/group)], [n, 1] for one scale a row, or [1] for the whole weight.
        weight_zero_point: int8 of the scales' shape, or None for symmetric weights.
        group: `group_size` of the scheme; None: from the shapes.

    Raises:
        ArgumentError: shapes that do not go together.
    """
    check_dtype("weight", weight, (torch.int8,))
    check_dtype("weight_scale", weight_scale, _SCALES)
    check_matrix("weight", weight, "[n, k]")
    n, k = map(int, weight.shape)
    if weight_zero_point is not None:
        check_dtype("weight_zero_point", weight_zero_point, (torch.int8,))
        check_shape("weight_zero_point", weight_zero_point, weight_scale.shape, "that of weight_scale")
        if weight_scale.numel() == 1:
            weight_zero_point = weight_zero_point.reshape(1, 1).expand(n, 1)
    if weight_scale.numel() == 1:
        weight_scale = weight_scale.reshape(1, 1).expand(n, 1)
    check_matrix("weight_scale", weight_scale, "[n, groups]")
    check_shape("weight_scale", weight_scale, (n, weight_scale.shape[1]), f"{n} rows")
    return QuantizedWeight(
        codes=_unsigned(weight),
        scales=weight_scale.contiguous(),
        group=group_size("weight_scale", k, int(weight_scale.shape[1]), group),
        format="int8",
        zeros=None if weight_zero_point is None else _unsigned(weight_zero_point),
    )


def _unsigned(signed: torch.Tensor) -> torch.Tensor:
    """int8 plus 128, as uint8: two's complement with the sign's bit turned over."""
    return signed.contiguous().view(torch.uint8) ^ 128


def from_nvfp4_pack_quantized(
    weight_packed: torch.Tensor, weight_scale: torch.Tensor, weight_global_scale: torch.Tensor
) -> QuantizedWeight:
    """Reads a layer of the format `nvfp4-pack-quantized`: W = E2M1 * weight_scale / weight_global_scale.

    Args:
        weight_packed: uint8 [n, k/2]: the low four bits of byte c are the E2M1 code of column 2 c.
        weight_scale: float8_e4m3fn [n, k/16].
        weight_global_scale: float32 [1]. It divides, so the result's global scale is its reciprocal,
            rounded to float32 (a relative error of at most 2^-24).

    Raises:
        ArgumentError: shapes that do not go together.
    """
    check_readable("weight_global_scale", weight_global_scale, torch.float32)
    if weight_global_scale.numel() != 1:
        shape = tuple(weight_global_scale.shape)
        raise ArgumentError("weight_global_scale", f"expected one element, got shape {shape}")
    factor = torch.reciprocal(weight_global_scale.double()).float().item()
    return nvfp4(("weight_packed", weight_packed), ("weight_scale", weight_scale), factor)
