"""Casts to FP8 and FP4 with a scale to a block, and back.

FP8 in blocks of 128 is quantised by a kernel; what no kernel does (other blocks, other types, powers of two
for channels) by torch. A scale is max(amax, 1e-4) / 448 (FP4: / 6), which `use_ue8m0` rounds up to a power of
two.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "align", "cast_back_from_fp4", "ceil_div", "ceil_to_ue8m0", "pack_ue8m0_to_int", "per_block_cast_to_fp8",
    "per_channel_cast_to_fp8", "per_custom_dims_cast_to_fp8", "per_token_cast_to_fp4",
    "per_token_cast_to_fp8", "transpose_packed_fp4", "unpack_ue8m0_from_int",
]  # fmt: skip

LEAST_AMAX = 1e-4
E4M3_MAX, E2M1_MAX = 448.0, 6.0
KERNEL_BLOCK, KERNEL_MULTIPLE = 128, 16  # columns that share a scale; what a kernel's k is a multiple of
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # between E2M1's magnitudes
Pair = tuple[torch.Tensor, torch.Tensor]


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


def align(x: int, y: int) -> int:
    """The least multiple of y that is not below x."""
    return ceil_div(x, y) * y


def ceil_to_ue8m0(x: torch.Tensor) -> torch.Tensor:
    """The least powers of two, from 2^-126 to 2^127, that are not below |x|; float32."""
    bits = x.abs().float().view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0)
    return (exponent.clamp(1, 254).int() << 23).view(torch.float32)


def pack_ue8m0_to_int(x: torch.Tensor) -> torch.Tensor:
    """Scales [..., 4c], float32 powers of two, as int32 words [..., c], the first exponent lowest.

    Raises:
        ArgumentError: a scale is no positive power of two, or they are no multiple of 4.
        ArgumentTypeError: they are not float32.
    """
    if x.dtype != torch.float32:
        raise ArgumentTypeError("x", f"its dtype is {x.dtype}; expected torch.float32")
    bits = x.view(torch.int32)
    if x.shape[-1] % blockwise_scales.SCALES_PER_WORD or bool(((bits < 0) | (bits & 0x7FFFFF != 0)).any()):
        raise ArgumentError("x", "expected multiples of 4 positive powers of two")
    return (bits >> 23).to(torch.uint8, memory_format=torch.contiguous_format).view(torch.int32)


def unpack_ue8m0_from_int(packed_sf: torch.Tensor) -> torch.Tensor:
    """Undoes `pack_ue8m0_to_int`."""
    # A contiguous tensor keeps odd strides of extents of 1, with which torch makes no view of another type.
    words = packed_sf.clone(memory_format=torch.contiguous_format)
    return (words.view(torch.uint8).int() << 23).view(torch.float32)


def per_token_cast_to_fp8(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> Pair:
    """x [m, n] as float8_e4m3fn, and a scale for each `gran_k` columns of a row: float32 [m, n / gran_k],
    contiguous; `use_packed_ue8m0`: int32 words of four."""
    if gran_k == KERNEL_BLOCK and _kernel_takes(x):
        data, scales = _quantized(x, (1, KERNEL_BLOCK), use_ue8m0)
    else:
        m, n = x.shape
        columns = align(n, gran_k)
        wide = torch.nn.functional.pad(x, (0, columns - n)).view(m, columns // gran_k, gran_k)
        data, scales = _scaled(wide, (2,), use_ue8m0)
        data, scales = data.view(m, columns)[:, :n].contiguous(), scales.view(m, columns // gran_k)
    return data, pack_ue8m0_to_int(scales) if use_packed_ue8m0 else scales


def per_block_cast_to_fp8(x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128) -> Pair:
    """x [m, n] as float8_e4m3fn, and a float32 scale for each block of gran_k x gran_k."""
    if gran_k == KERNEL_BLOCK and _kernel_takes(x):
        return _quantized(x, (KERNEL_BLOCK, KERNEL_BLOCK), use_ue8m0)
    m, n = x.shape
    rows, columns = align(m, gran_k), align(n, gran_k)
    wide = torch.nn.functional.pad(x, (0, columns - n, 0, rows - m))
    blocks = wide.view(rows // gran_k, gran_k, columns // gran_k, gran_k)
    data, scales = _scaled(blocks, (1, 3), use_ue8m0)
    return data.view(rows, columns)[:m, :n].contiguous(), scales.view(rows // gran_k, columns // gran_k)


def per_channel_cast_to_fp8(x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128) -> Pair:
    """x [m, n] as float8_e4m3fn, and a float32 scale for each `gran_k` rows of a column, [m / gran_k, n]."""
    m, n = x.shape
    if m % gran_k:
        raise ArgumentError("x", f"it has {m} rows; expected a multiple of {gran_k}")
    if gran_k == KERNEL_BLOCK and not use_ue8m0 and _kernel_takes(x):
        return _quantized(x, (KERNEL_BLOCK, 1), use_ue8m0)
    data, scales = _scaled(x.view(-1, gran_k, n), (1,), use_ue8m0)
    return data.view(m, n), scales.view(-1, n)


def per_custom_dims_cast_to_fp8(x: torch.Tensor, dims: Sequence[int], use_ue8m0: bool) -> Pair:
    """x as float8_e4m3fn, and a float32 scale for each index of `dims`."""
    data, scales = _scaled(x, tuple(i for i in range(x.dim()) if i not in dims), use_ue8m0)
    return data, scales.squeeze()


def per_token_cast_to_fp4(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> Pair:
    """x [m, n] as E2M1, int8 [m, n/2], the even column in the low four bits, and scales as
    `per_token_cast_to_fp8` has them. What lies between two magnitudes in the middle becomes the smaller."""
    m, n = x.shape
    if n % 2:
        raise ArgumentError("x", f"it has {n} columns; expected an even number, because a byte holds two")
    columns = align(n, gran_k)
    wide = torch.nn.functional.pad(x, (0, columns - n)).view(m, columns // gran_k, gran_k).float()
    scales = _scales(wide.abs().amax(dim=2), E2M1_MAX, use_ue8m0)
    scaled = (wide * (1.0 / scales.unsqueeze(2))).view(m, columns)[:, :n].contiguous()
    magnitudes = torch.bucketize(scaled.abs(), torch.tensor(MIDPOINTS, device=x.device))
    codes = torch.where((scaled < 0) & (magnitudes > 0), magnitudes | 8, magnitudes).to(torch.uint8)
    data = (codes[:, 0::2] | codes[:, 1::2] << 4).view(torch.int8)
    if not use_packed_ue8m0:
        return data, scales
    missing = -scales.shape[1] % blockwise_scales.SCALES_PER_WORD
    return data, pack_ue8m0_to_int(torch.nn.functional.pad(scales, (0, missing), value=1.0))


def cast_back_from_fp4(
    packed: torch.Tensor, sf: torch.Tensor, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> torch.Tensor:
    """Undoes `per_token_cast_to_fp4`: float32 [m, n]."""
    scales = unpack_ue8m0_from_int(sf) if use_packed_ue8m0 else sf
    values = tilewright.reference.decode_e2m1(_nibbles(packed)).float()
    return values * scales.repeat_interleave(gran_k, dim=1)[:, : values.shape[1]]


def transpose_packed_fp4(a: torch.Tensor) -> torch.Tensor:
    """E2M1 int8 [m, n/2] as [n, m/2]: the transposed matrix, two of its elements to a byte."""
    if a.shape[0] % 2:
        raise ArgumentError(
            "a", f"it has {a.shape[0]} rows; expected an even number, because a byte holds two"
        )
    codes = _nibbles(a).mT.contiguous()
    return (codes[:, 0::2] | codes[:, 1::2] << 4).view(torch.int8)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    codes = packed.contiguous().view(torch.uint8)
    return torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)


def _kernel_takes(x: torch.Tensor) -> bool:
    return bool(x.is_cuda) and x.dim() == 2 and x.shape[1] % KERNEL_MULTIPLE == 0


def _quantized(x: torch.Tensor, block: tuple[int, int], use_ue8m0: bool) -> Pair:
    if not use_ue8m0:
        return tilewright.quantize_fp8_blockwise(x, block, scale_layout="row_major")
    data, packed = tilewright.quantize_fp8_blockwise(x, block, scale_type="ue8m0")
    scales = blockwise_scales.unpack(packed, ceil_div(x.shape[1], KERNEL_BLOCK)).float()
    return data, scales[:: block[0]].contiguous()  # packed scales repeat those of a square for its rows


def _scaled(x: torch.Tensor, dims: tuple[int, ...], use_ue8m0: bool) -> Pair:
    """x with one scale over `dims`, which are kept with an extent of 1."""
    scales = _scales(x.abs().float().amax(dim=dims, keepdim=True), E4M3_MAX, use_ue8m0)
    return (x * (1.0 / scales)).to(torch.float8_e4m3fn), scales


def _scales(amax: torch.Tensor, largest: float, use_ue8m0: bool) -> torch.Tensor:
    scales = amax.clamp(LEAST_AMAX) / largest
    return ceil_to_ue8m0(scales) if use_ue8m0 else scales
