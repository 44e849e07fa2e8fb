"""The bytes of the codes of a packed weight (docs/packed_kernels.md): where each bit of a code lies.

Functions take tensors of torch of any device; importing this module imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

Places = tuple[tuple[int, ...], ...]
"""Where the bits of a code lie in its half of a word, the lowest bit first, for each pair of the word. Codes
of 4 bits have four pairs in a word of 32 bits, codes of 8 bits have two."""

INT4: Places = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
INT8: Places = ((0, 1, 2, 3, 4, 5, 6, 7), (8, 9, 10, 11, 12, 13, 14, 15))
# The first pair lies where BF16 has it.
E2M1: Places = ((6, 7, 8, 15), (3, 4, 5, 12), (0, 1, 2, 13), (9, 10, 11, 14))
# A shift to the left brings the second pair's sign and four bits to where BF16 has them, and a shift to the
# right the three others.
E4M3: Places = ((4, 5, 6, 7, 8, 9, 10, 15), (0, 1, 2, 3, 12, 13, 14, 11))


def places(floating: bool, bits: int) -> Places:
    """Where the bits of a format's codes lie: of floating-point codes or integers, of 4 or 8 bits."""
    if floating:
        return E2M1 if bits == 4 else E4M3
    return INT4 if bits == 4 else INT8


def pack_codes(codes: torch.Tensor, places: Places) -> torch.Tensor:
    """The bytes of codes: uint8 [n, k], one code to a byte, n a multiple of 64 and k of 128.

    On the way, the codes of eight neighbours along k are an int64."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    down, blocks = codes.shape[0] // 64, codes.shape[1] // 64
    pairs = _pairs(codes.view(torch.int64).view(down, 4, 2, 8, blocks, 4, 2), places)
    halves = [torch.zeros_like(pairs[0]) for _ in range(2)]  # the bytes of each half of a word
    for move in _moves(places):
        halves[move.byte] |= _moved(pairs[move.pair], move.mask, move.left)
    # [unit, warp, g, 64 of k, step, (high,) c, element, byte], of which the last two are a word
    octets = torch.stack([x.unsqueeze(-1).view(torch.uint8) for x in halves], -1)
    words = octets.flatten(-2).view(torch.int32)
    if len(places) == 4:
        words = words.permute(0, 3, 1, 2, 5, 4)
    else:  # a thread's words of 32 of k are 16 bytes
        words = words.unflatten(4, (2, 2)).permute(0, 3, 4, 1, 2, 7, 5, 6)
    return words.contiguous().view(torch.uint8)


def unpack_codes(packed: torch.Tensor, places: Places, shape: tuple[int, int]) -> torch.Tensor:
    """Undoes `pack_codes`, for codes of `shape`."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    down, blocks = shape[0] // 64, shape[1] // 64
    octets = packed.clone(memory_format=torch.contiguous_format)  # at an address that words may have
    words = octets.view(torch.int32)
    if len(places) == 4:
        words = words.view(down, blocks, 4, 8, 4, 4).permute(0, 2, 3, 1, 5, 4)
    else:
        words = words.view(down, blocks, 2, 4, 8, 4, 2, 2).permute(0, 3, 4, 1, 2, 6, 7, 5).flatten(4, 5)
    octets = words.contiguous().view(torch.uint8).unflatten(-1, (words.shape[-1] * 2, 2))
    halves = [octets[..., byte].contiguous().view(torch.int64).squeeze(-1) for byte in range(2)]
    eights = torch.zeros((down, 4, 2, 8, blocks, 4, 2), dtype=torch.int64, device=packed.device)
    pairs = _pairs(eights, places)
    for move in _moves(places):
        mask = move.mask << move.left if move.left >= 0 else move.mask >> -move.left
        pairs[move.pair] |= _moved(halves[move.byte], mask, -move.left)
    return eights.view(torch.uint8).view(shape)


def _pairs(eights: torch.Tensor, places: Places) -> list[torch.Tensor]:
    """Views of codes [unit, warp, h, g, 64 of k, step, high], one for each pair of a word. Where a word has
    two pairs, each `high` has a word."""
    if len(places) == 2:
        return [eights[:, :, h] for h in range(2)]
    return [eights[:, :, pair % 2, ..., pair // 2] for pair in range(4)]


class _Move(NamedTuple):
    """Bits of a code that go to one byte of a half by one shift."""

    pair: int
    byte: int
    left: int
    mask: int


def _moves(places: Places) -> list[_Move]:
    """How the codes of a word's pairs become the two bytes of a half."""
    masks: dict[tuple[int, int, int], int] = {}
    for pair, bits in enumerate(places):
        for bit, at in enumerate(bits):
            move = (pair, at // 8, at % 8 - bit)
            masks[move] = masks.get(move, 0) | 1 << bit
    return [_Move(*move, mask) for move, mask in masks.items()]


def _moved(eights: torch.Tensor, mask: int, left: int) -> torch.Tensor:
    """Bits `mask` of each of the eight bytes of an int64, shifted within the byte."""
    if left >= 0:
        return (eights & _eight_times(mask)) << left
    return (eights >> -left) & _eight_times(mask >> -left)  # the shift repeats the sign


def _eight_times(octet: int) -> int:
    """A byte eight times, as an int64."""
    return int.from_bytes(bytes([octet] * 8), "little", signed=True)
