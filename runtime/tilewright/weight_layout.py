"""The packed layout of 4-bit and 8-bit weights, version 1 (docs/packed_kernels.md).

`pack` turns one code to a byte, and scales, into the bytes that kernels read; `unpack` is its inverse. A
weight is cut into units of 64 rows (n) by 128 of k, padded with zeros. Within a unit, bytes lie in the order
in which the threads of a warpgroup hold operand A of `wgmma.m64nNk16` and of `mma.m16n8k16`, so that one
16-byte load of a thread feeds four instructions (8-bit codes: two), whatever the number of activations' rows.

Functions take tensors of torch of any device; importing this module imports no torch.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from tilewright.errors import ArgumentError
from tilewright.weight_codes import pack_codes, places, unpack_codes
from tilewright.weight_formats import (
    FORMATS,
    GATED_ROWS,
    UNIT_K,
    UNIT_N,
    WHOLE_ROW,
    WeightFormat,
    packed_group,
)

if TYPE_CHECKING:
    import torch

VERSION = 1
_E4M3_NAN = 0x7F  # beside the sign


class Packed(NamedTuple):
    """The bytes of a packed weight: uint8 [ceil(n/64), ceil(k/128) * unit_bytes] and [ceil(n/64),
    ceil(k/128) * record_bytes]."""

    weight: torch.Tensor
    scale: torch.Tensor


def interleaved(rows: torch.Tensor) -> torch.Tensor:
    """The rows [n, ...] of a gated weight as they are packed: 8 of the first half and 8 of the second in
    turn. n is a multiple of 16."""
    return rows.unflatten(0, (2, -1, GATED_ROWS)).transpose(0, 1).flatten(0, 2)


def separated(rows: torch.Tensor) -> torch.Tensor:
    """The rows that `interleaved` got."""
    return rows.unflatten(0, (-1, 2, GATED_ROWS)).transpose(0, 1).flatten(0, 2)


def check_extents(n: int, k: int) -> None:
    """Raises ArgumentError for extents that cannot be packed."""
    if n <= 0 or n % 8:
        raise ArgumentError("codes", f"expected a positive number of rows that is a multiple of 8, got {n}")
    if k <= 0 or k % 32:
        raise ArgumentError(
            "codes", f"expected a positive number of columns that is a multiple of 32, got {k}"
        )


def pack(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None = None, *, format: str, group: int
) -> Packed:
    """Packs a weight.

    Args:
        codes: uint8 [n, k], one code to a byte, of 4 bits 0 to 15; n a multiple of 8, k of 32. Integers: the
            value plus 8 (int4), plus 128 (int8), or plus its group's zero point (int4_zp). E2M1: the sign in
            bit 3. E4M3: its bits; none is NaN.
        scales: [n, ceil(k/group)], or [n, 1] for a group of WHOLE_ROW: bfloat16 or float16 (int4, int4_zp,
            int8, e4m3), float8_e4m3fn or uint8 (nvfp4), float8_e8m0fnu or uint8 (mxfp4).
        zeros: uint8 of the scales' shape, 0 to 15, for int4_zp; else None.
        format: a name of FORMATS.
        group: elements along k that share a scale; WHOLE_ROW for one scale a row.

    Raises:
        ArgumentError: extents, types or groups that do not go together.
    """
    kind = _checked(codes, scales, zeros, format, group)
    n, k = codes.shape
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    padded = codes.new_full((down * UNIT_N, across * UNIT_K), kind.middle)
    padded[:n, :k] = codes
    weight = pack_codes(padded, places(kind.floating, kind.bits)).reshape(down, across * kind.unit_bytes)
    return Packed(weight, _pack_scales(kind, scales, zeros, codes, group))


def unpack(
    packed: Packed, n: int, k: int, *, format: str, group: int, scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The codes, scales and zero points that `pack` was called with; the scales are of `scale_dtype`."""
    kind = FORMATS[format]
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    of_bits = places(kind.floating, kind.bits)
    codes = unpack_codes(packed.weight, of_bits, (down * UNIT_N, across * UNIT_K))[:n, :k]
    scales, zeros = _unpack_scales(kind, packed.scale, (n, k), group, scale_dtype)
    return codes.contiguous(), scales, zeros


def _pack_scales(
    kind: WeightFormat,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    codes: torch.Tensor,
    group: int,
) -> torch.Tensor:
    (n, k), size = codes.shape, kind.scale_bytes
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    of_unit = UNIT_K // packed_group(group)
    columns = across if group == WHOLE_ROW else scales.shape[1]
    planes = [scales] if zeros is None else [scales, zero_bits(zeros, scales.dtype)]
    padded = codes.new_zeros((down * UNIT_N, across * of_unit, size * len(planes)))
    for i, plane in enumerate(planes):
        elements = plane.expand(n, columns).contiguous().view(codes.dtype).view(n, columns, size)
        padded[:n, :columns, i * size : (i + 1) * size] = elements
    halves = min(2, of_unit)  # blocks of 64 of k that have scales of their own
    parts = padded.view(down, 4, 2, 8, across, halves, of_unit // halves, -1)
    return parts.permute(0, 4, 5, 1, 3, 6, 2, 7).reshape(down, -1).contiguous()


def _unpack_scales(
    kind: WeightFormat, packed: torch.Tensor, extents: tuple[int, int], group: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor | None]:
    n, k = extents
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    of_unit = UNIT_K // packed_group(group)
    size = kind.scale_bytes
    halves = min(2, of_unit)
    parts = packed.view(down, across, halves, 4, 8, of_unit // halves, 2, -1)
    elements = parts.permute(0, 3, 6, 4, 1, 2, 5, 7).reshape(down * UNIT_N, across * of_unit, -1)
    columns = 1 if group == WHOLE_ROW else ceil(k / group)
    elements = elements[:n, :columns]
    scales = elements[..., :size].contiguous().view(dtype).view(n, columns)
    if not kind.zeros:
        return scales, None
    words = elements[..., size:].contiguous().view(dtype).view(n, columns)
    return scales, (words.float() - _zero_base(dtype)).byte()


def zero_bits(zeros: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Zero points as kernels subtract them: 128 + zero in bfloat16, 1024 + zero in float16."""
    return (zeros.float() + _zero_base(dtype)).to(dtype)


def _zero_base(dtype: torch.dtype) -> int:
    return 128 if str(dtype) == "torch.bfloat16" else 1024


def _checked(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, format: str, group: int
) -> WeightFormat:
    """The format, where everything goes together."""
    if format not in FORMATS:
        raise ArgumentError("format", f"expected one of {', '.join(FORMATS)}, got {format!r}")
    kind = FORMATS[format]
    if codes.ndim != 2 or _name(codes) != "uint8":
        raise ArgumentError("codes", f"expected uint8 [n, k], got {_name(codes)} {tuple(codes.shape)}")
    n, k = codes.shape
    check_extents(n, k)
    if group not in kind.groups:
        raise ArgumentError("group", f"expected one of {kind.groups} for {format}, got {group}")
    shape = (n, 1 if group == WHOLE_ROW else ceil(k / group))
    if tuple(scales.shape) != shape:
        raise ArgumentError("scales", f"expected shape {shape}, got {tuple(scales.shape)}")
    if _name(scales) not in kind.scale_types:
        expected = " or ".join(kind.scale_types)
        raise ArgumentError("scales", f"expected {expected} for {format}, got {_name(scales)}")
    if (zeros is not None) != kind.zeros:
        raise ArgumentError("zeros", f"{format} has {'' if kind.zeros else 'no '}zero points")
    if zeros is not None and (tuple(zeros.shape) != shape or _name(zeros) != "uint8"):
        expected = f"uint8 {shape}"
        raise ArgumentError("zeros", f"expected {expected}, got {_name(zeros)} {tuple(zeros.shape)}")
    if kind.bits == 4 and (int(codes.max()) > 15 or (zeros is not None and int(zeros.max()) > 15)):
        raise ArgumentError("codes", "expected codes and zero points of 0 to 15")
    if format == "e4m3" and bool(((codes & _E4M3_NAN) == _E4M3_NAN).any()):
        raise ArgumentError("codes", "expected numbers, got NaN (0x7F or 0xFF), which kernels do not decode")
    return kind


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
