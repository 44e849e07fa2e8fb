"""The packed layout of 4-bit weights, version 1 (docs/packed_weights.md).

`pack` turns one code to a byte, and scales, into the bytes that kernels read; `unpack` is its inverse. A
weight is cut into units of 64 rows (n) by 128 of k, padded with zeros. Within a unit, bytes lie in the order
in which the threads of a warpgroup hold operand A of `wgmma.m64nNk16` and of `mma.m16n8k16`, so that one
16-byte load of a thread feeds four instructions, whatever the number of activations' rows.

Functions take tensors of torch of any device; importing this module imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from tilewright.errors import ArgumentError

if TYPE_CHECKING:
    import torch

VERSION = 1
UNIT_N, UNIT_K = 64, 128
"""Rows and columns of a unit."""
UNIT_BYTES = UNIT_N * UNIT_K // 2
WHOLE_ROW = -1
"""The group size of a weight that has one scale for each row of n."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A format of 4-bit weights."""

    floating: bool  # codes are E2M1; otherwise integers, code - 8 or code - zero
    zeros: bool  # each group has a zero point
    groups: tuple[int, ...]  # legal group sizes along k
    scale_types: tuple[str, ...]  # of the scales, as torch names them
    scale_bytes: int = 1  # of a packed scale

    def record_bytes(self, group: int) -> int:
        """Bytes of the scales, and zero points, of a unit."""
        of_group = self.scale_bytes * (2 if self.zeros else 1)
        return UNIT_N * (UNIT_K // packed_group(group)) * of_group


_GROUPS = (128, 64, 32, WHOLE_ROW)
_HALVES = ("bfloat16", "float16")  # the type of the activations
FORMATS = {
    "int4": WeightFormat(False, False, _GROUPS, _HALVES, 2),
    "int4_zp": WeightFormat(False, True, _GROUPS, _HALVES, 2),
    "mxfp4": WeightFormat(True, False, (32,), ("float8_e8m0fnu", "uint8")),
    "nvfp4": WeightFormat(True, False, (16,), ("float8_e4m3fn", "uint8")),
}


def packed_group(group: int) -> int:
    """The group size of the packed scales: scales of a whole row are repeated for every 128 of k."""
    return UNIT_K if group == WHOLE_ROW else group


class Packed(NamedTuple):
    """The bytes of a packed weight: uint8 [ceil(n/64), ceil(k/128) * 4096] and [ceil(n/64), ceil(k/128) *
    record_bytes]."""

    weight: torch.Tensor
    scale: torch.Tensor


def packed_shapes(n: int, k: int, format: str, group: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of `Packed`'s tensors."""
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    return (down, across * UNIT_BYTES), (down, across * FORMATS[format].record_bytes(group))


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
        codes: uint8 [n, k], one code to a byte, 0 to 15; n a multiple of 8, k of 32. Integers: the value plus
            8 (int4), or plus its group's zero point (int4_zp). E2M1: the sign in bit 3.
        scales: [n, ceil(k/group)], or [n, 1] for a group of WHOLE_ROW: bfloat16 or float16 (int4,
            int4_zp), float8_e4m3fn or uint8 (nvfp4), float8_e8m0fnu or uint8 (mxfp4).
        zeros: uint8 of the scales' shape, 0 to 15, for int4_zp; else None.
        format: a name of FORMATS.
        group: elements along k that share a scale; WHOLE_ROW for one scale a row.

    Raises:
        ArgumentError: extents, types or groups that do not go together.
    """
    kind = _checked(codes, scales, zeros, format, group)
    n, k = codes.shape
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    zero_code = 0 if kind.floating or kind.zeros else 8
    padded = codes.new_full((down * UNIT_N, across * UNIT_K), zero_code)
    padded[:n, :k] = codes
    weight = _words(kind, padded).reshape(down, across * UNIT_BYTES)
    return Packed(weight, _pack_scales(kind, scales, zeros, codes, group))


def unpack(
    packed: Packed, n: int, k: int, *, format: str, group: int, scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The codes, scales and zero points that `pack` was called with; the scales are of `scale_dtype`."""
    kind = FORMATS[format]
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    codes = _codes(kind, packed.weight, down, across)[:n, :k]
    scales, zeros = _unpack_scales(kind, packed.scale, (n, k), group, scale_dtype)
    return codes.contiguous(), scales, zeros


def _words(kind: WeightFormat, codes: torch.Tensor) -> torch.Tensor:
    """The bytes of padded codes [n, k]. On the way, the codes of eight neighbours along k are an int64."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    down, blocks = codes.shape[0] // UNIT_N, codes.shape[1] // 64
    # unit, warp, h, g, 64 of k, step, high
    eights = codes.view(torch.int64).view(down, 4, 2, 8, blocks, 4, 2)
    halves = [torch.zeros_like(eights[:, :, 0, ..., 0]) for _ in range(2)]  # the bytes of each half of a word
    for move in _moves(kind):
        source = eights[:, :, move.pair % 2, ..., move.pair // 2] & _OF_EIGHT * move.mask
        halves[move.byte] |= source << move.left if move.left >= 0 else source >> -move.left
    # [unit, warp, g, 64 of k, step, c, element, byte], of which the last two are a word
    octets = torch.stack([x.unsqueeze(-1).view(torch.uint8) for x in halves], -1)
    words = octets.flatten(-2).view(torch.int32)
    return words.permute(0, 3, 1, 2, 5, 4).contiguous().view(torch.uint8)


def _codes(kind: WeightFormat, packed: torch.Tensor, down: int, across: int) -> torch.Tensor:
    """Undoes `_words`: codes with their padding."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    octets = packed.clone(memory_format=torch.contiguous_format)  # at an address that words may have
    words = octets.view(torch.int32).view(down, 2 * across, 4, 8, 4, 4).permute(0, 2, 3, 1, 5, 4)
    octets = words.contiguous().view(torch.uint8).unflatten(-1, (8, 2))
    halves = [octets[..., byte].contiguous().view(torch.int64).squeeze(-1) for byte in range(2)]
    eights = torch.zeros((down, 4, 2, 8, 2 * across, 4, 2), dtype=torch.int64, device=packed.device)
    for move in _moves(kind):
        source = halves[move.byte] >> move.left if move.left >= 0 else halves[move.byte] << -move.left
        eights[:, :, move.pair % 2, ..., move.pair // 2] |= source & _OF_EIGHT * move.mask
    return eights.view(torch.uint8).view(down * UNIT_N, across * UNIT_K)


_OF_EIGHT = 0x0101010101010101
"""Times a byte: that byte for each of the eight codes in an int64."""


class _Move(NamedTuple):
    """Bits of a code that go to one byte of a half by one shift."""

    pair: int
    byte: int
    left: int
    mask: int


def _moves(kind: WeightFormat) -> list[_Move]:
    """How the codes of the four pairs become the two bytes of a half."""
    masks: dict[tuple[int, int, int], int] = {}
    for pair in range(4):
        for bit, at in enumerate(_bits_of(kind, pair)):
            move = (pair, at // 8, at % 8 - bit)
            masks[move] = masks.get(move, 0) | 1 << bit
    return [_Move(*move, mask) for move, mask in masks.items()]


def _bits_of(kind: WeightFormat, pair: int) -> tuple[int, int, int, int]:
    """Where the bits of a code of a pair lie in its half of a word, the lowest first."""
    if not kind.floating:
        return (4 * pair, 4 * pair + 1, 4 * pair + 2, 4 * pair + 3)
    first, sign = _E2M1_PLACES[pair]
    return (first, first + 1, first + 2, sign)


# The lowest bit of the magnitude, and the sign. The first pair lies where BF16 has it.
_E2M1_PLACES = ((6, 15), (3, 12), (0, 13), (9, 14))


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
    if int(codes.max()) > 15 or (zeros is not None and int(zeros.max()) > 15):
        raise ArgumentError("codes", "expected codes and zero points of 0 to 15")
    return kind


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
