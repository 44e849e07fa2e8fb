"""FP8 (E4M3) in blocks of 1x128, 128x1 or 128x128 elements, as DeepGEMM's operands are quantised.

Defined by these FP32 operations, each rounded to nearest as IEEE 754 has it and none fused. With amax the
largest magnitude in a block, and 1e-4 the float32 nearest to that:

    float32:  scale = max(amax, 1e-4) / 448,           factor = 1 / scale
    ue8m0:    scale = ue8m0(max(amax, 1e-4) / 448),    factor = 2^(127 - byte) = 1 / scale
    data = e4m3(x * factor)

`codes` says how the types round. (DeepGEMM's own casts in torch do the same on a CPU; on a GPU torch divides
by 448 through a rounded reciprocal.) Hence:

- A block at the matrix's edge has fewer elements. Zeros keep their sign in the data.
- A NaN makes its block's scale NaN (0xFF), its data NaN.
- An infinity makes a float32 scale infinite: the block's data are 0, its own NaN. It saturates a UE8M0 scale
  (2^127) and its own element.
"""

from __future__ import annotations

from typing import Literal

import torch

from tilewright import blockwise_scales
from tilewright.blockwise_scales import BLOCK, LayoutName
from tilewright.errors import ArgumentError
from tilewright.tools.reference import codes
from tilewright.tools.reference.quantization import blocks_of, valid_rows

ScaleType = Literal["float32", "ue8m0"]
BLOCKS = ((1, BLOCK), (BLOCK, 1), (BLOCK, BLOCK))
LEAST_AMAX = 1e-4


def default_layout(block: tuple[int, int], scale_type: str) -> LayoutName:
    """The layout that DeepGEMM reads: packed for UE8M0; for float32, m_major for rows and row_major for
    squares."""
    if scale_type == "ue8m0":
        return "packed"
    return "m_major" if block == (1, BLOCK) else "row_major"


def quantize_fp8_blockwise(
    x: torch.Tensor,
    block: tuple[int, int] = (1, BLOCK),
    scale_type: ScaleType = "float32",
    scale_layout: LayoutName | None = None,
    *,
    rows_valid: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises a matrix [..., m, k] of BF16, FP16, FP32 or FP8 as the head of this module defines.

    `rows_valid` (int32 [...], one number for each matrix) counts the valid rows; the data and scales of other
    rows are 0.

    Returns:
        data: float8_e4m3fn [..., m, k].
        scales: float32 [..., m, ceil(k/128)], of blocks 128x128 [..., ceil(m/128), ceil(k/128)], of blocks
            128x1, which have float32 row_major ones alone, [..., ceil(m/128), k]; or packed,
            int32 [..., m, ceil(k/512)]. See `tilewright.blockwise_scales` for their layouts; a packed scale
            of a 128x128 block stands in each of its rows.

    Raises:
        ArgumentError, ArgumentTypeError: of the shape, dtype, block, type or layout.
    """
    layout = check(block, scale_type, scale_layout)
    if block == (BLOCK, 1):
        return _columns(x, rows_valid)
    value = codes.as_float32("x", x)
    if value.ndim < 2:
        raise ArgumentError("x", f"shape {tuple(x.shape)}, expected [..., m, k]")
    rows, k = value.shape[-2:]
    valid = None if rows_valid is None else valid_rows(rows_valid, rows)
    if valid is not None:
        value = torch.where(valid[..., None], value, 0.0)
    height = block[0]
    blocks = blocks_of(value, BLOCK)  # [..., m, columns, 128]
    amax = _over_rows(blocks.abs().amax(dim=-1), height)
    share = amax.clamp(min=LEAST_AMAX) / torch.full_like(amax, codes.E4M3_MAX)
    if scale_type == "float32":
        scale = share
        factor = torch.ones_like(scale) / scale
    else:
        scale = codes.encode_ue8m0(share)
        factor = (1.0 / codes.decode_ue8m0(scale)).to(torch.float32)  # a power of two: exact
        scale = scale.view(torch.uint8)
    if valid is not None:
        of_block = valid if height == 1 else _over_rows(valid[..., None].float(), height)[..., 0] > 0
        scale = torch.where(of_block[..., None], scale, torch.zeros_like(scale))
    scaled = (blocks * _each_row(factor, height, rows)[..., None]).flatten(-2)[..., :k]
    if layout == "packed":
        scale = _each_row(scale, height, rows)
        if valid is not None:
            scale = torch.where(valid[..., None], scale, torch.zeros_like(scale))
        stored = blockwise_scales.pack(scale)
    else:
        stored = blockwise_scales.m_major(scale) if layout == "m_major" else scale.contiguous()
    return codes.encode_e4m3(scaled), stored


def _columns(x: torch.Tensor, rows_valid: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises in blocks of 128x1: the blocks of 1x128 of the transposed matrix."""
    if rows_valid is not None:
        x = torch.where(valid_rows(rows_valid, x.shape[-2])[..., None], x.float(), 0.0)
    data, scales = quantize_fp8_blockwise(x.mT, (1, BLOCK), "float32", "row_major")
    if rows_valid is not None:
        first = torch.arange(scales.shape[-1], device=x.device) * BLOCK
        scales = torch.where(first < rows_valid[..., None, None], scales, 0.0)
    return data.view(torch.uint8).mT.contiguous().view(data.dtype), scales.mT.contiguous()


def dequantize_fp8_blockwise(
    data: torch.Tensor,
    scales: torch.Tensor,
    block: tuple[int, int] = (1, BLOCK),
    *,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """The matrix [..., m, k] that `data` and `scales` stand for: element * scale, exact in float64, then
    rounded to `dtype`. int32 scales are packed UE8M0.

    Raises:
        ArgumentError: a shape or the block is wrong.
    """
    *batch, rows, k = data.shape
    height, width = block
    columns = -(-k // width)
    if scales.dtype == torch.int32:
        scale, height = codes.decode_ue8m0(blockwise_scales.unpack(scales, columns)), 1
    else:
        check(block, "float32", None)
        scale = scales.double()
    expected = (*batch, -(-rows // height), columns)
    if tuple(scale.shape) != expected:
        raise ArgumentError("scales", f"shape {tuple(scales.shape)}, expected {expected}")
    scale_of_element = _each_row(scale, height, rows).repeat_interleave(width, dim=-1)[..., :k]
    return (codes.decode_e4m3(data) * scale_of_element).to(dtype)


def check(block: tuple[int, int], scale_type: str, layout: str | None) -> LayoutName:
    """The layout of the scales. Raises ArgumentError for values that do not go together."""
    if block not in BLOCKS:
        raise ArgumentError("block", f"{block}, expected (1, {BLOCK}), ({BLOCK}, 1) or ({BLOCK}, {BLOCK})")
    if scale_type not in ("float32", "ue8m0"):
        raise ArgumentError("scale_type", f"{scale_type!r}, expected 'float32' or 'ue8m0'")
    if block == (BLOCK, 1) and scale_type != "float32":
        raise ArgumentError("scale_type", f"{scale_type!r}, expected 'float32' for blocks of {BLOCK}x1")
    default = default_layout(block, scale_type)
    floats_of_rows = scale_type == "float32" and block == (1, BLOCK)
    legal: tuple[LayoutName, ...] = ("m_major", "row_major") if floats_of_rows else (default,)
    if layout is not None and layout not in legal:
        names = " or ".join(map(repr, legal))
        raise ArgumentError(
            "scale_layout", f"{layout!r}, expected {names} for {scale_type} scales of {block[0]}x{block[1]}"
        )
    return default if layout is None else next(name for name in legal if name == layout)


def _over_rows(per_row: torch.Tensor, height: int) -> torch.Tensor:
    """The maximum of each `height` rows of [..., m, columns]; the last may be fewer. NaN if a value is
    NaN."""
    if height == 1:
        return per_row
    *batch, rows, columns = per_row.shape
    count = -(-rows // height)
    wide = per_row.new_zeros((*batch, count * height, columns))
    wide[..., :rows, :] = per_row
    return wide.reshape(*batch, count, height, columns).amax(dim=-2)


def _each_row(per_block: torch.Tensor, height: int, rows: int) -> torch.Tensor:
    return per_block.repeat_interleave(height, dim=-2)[..., :rows, :] if height > 1 else per_block
