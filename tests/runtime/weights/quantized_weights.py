"""Quantized weights of each format, and whether two are equal."""

from __future__ import annotations

import torch

from tilewright.weights import QuantizedWeight

"""The group sizes of tests of each format; 32 of the rest."""

SHAPES = [(8, 32), (72, 160), (64, 128), (576, 288)]


# The bits of a code in a half of a word, for the pairs 0 to 3: as docs/packed_weights.md has them.
INTEGER_BITS = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
FLOATING_BITS = ((6, 7, 8, 15), (3, 4, 5, 12), (0, 1, 2, 13), (9, 10, 11, 14))
E4M3_BITS = ((4, 5, 6, 7, 8, 9, 10, 15), (0, 1, 2, 3, 12, 13, 14, 11))
EIGHT_BITS = {"int8": ((0, 1, 2, 3, 4, 5, 6, 7), (8, 9, 10, 11, 12, 13, 14, 15)), "e4m3": E4M3_BITS}


def quantized(
    kind: str, n: int, k: int, group: int, *, dtype: torch.dtype = torch.bfloat16, seed: int = 0
) -> QuantizedWeight:
    """A random weight; `int4_zp` is `int4` with zero points."""
    generator = torch.Generator().manual_seed(seed)
    columns = 1 if group == -1 else -(-k // group)
    codes = torch.randint(0, 16, (n, k), generator=generator, dtype=torch.uint8)
    octets = torch.randint(0, 256, (n, columns), generator=generator).to(torch.uint8)
    if kind == "mxfp4":
        return QuantizedWeight(codes, octets.view(torch.float8_e8m0fnu), group, "mxfp4")
    if kind == "nvfp4":
        return QuantizedWeight(codes, octets.view(torch.float8_e4m3fn), group, "nvfp4", global_scale=0.375)
    scales = (torch.rand((n, columns), generator=generator) + 0.01).to(dtype)
    if kind in EIGHT_BITS:
        codes = torch.randint(0, 256, (n, k), generator=generator).to(torch.uint8)
        if kind == "e4m3":
            codes = codes.where((codes & 0x7F) != 0x7F, 0x80)
            return QuantizedWeight(codes, scales, group, "e4m3")
        return QuantizedWeight(codes, scales, group, "int8")
    zeros = octets & 15 if kind == "int4_zp" else None
    return QuantizedWeight(codes, scales, group, "int4", zeros)


def equal(actual: QuantizedWeight, expected: QuantizedWeight) -> bool:
    """Every field, scales by their bytes."""
    same = [
        (actual.codes, expected.codes),
        (actual.scales.view(torch.uint8), expected.scales.view(torch.uint8)),
    ]
    if actual.zeros is not None and expected.zeros is not None:
        same.append((actual.zeros, expected.zeros))
    return (
        all(torch.equal(*pair) for pair in same)
        and (actual.zeros is None) == (expected.zeros is None)
        and (actual.group, actual.format, actual.global_scale)
        == (expected.group, expected.format, expected.global_scale)
        and actual.scales.dtype == expected.scales.dtype
    )


KINDS = [
    *((kind, group) for kind in ("int4", "int4_zp") for group in (32, 64, 128, -1)),
    ("mxfp4", 32),
    ("nvfp4", 16),
    *((kind, group) for kind in EIGHT_BITS for group in (128, -1)),
]
