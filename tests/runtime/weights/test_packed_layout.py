"""Where elements, scales and padding lie in a packed weight, as docs/packed_weights.md says."""

from __future__ import annotations

import pytest
import torch
from quantized_weights import EIGHT_BITS, FLOATING_BITS, INTEGER_BITS, KINDS, quantized

from tilewright import weight_formats
from tilewright.errors import ArgumentError
from tilewright.weights import PackedWeight, pack_weight

"""The group sizes of tests of each format; 32 of the rest."""


def octets_of(tensor: torch.Tensor) -> list[bytes]:
    return [bytes(row) for row in tensor.tolist()]


def code_of(packed: PackedWeight, octets: list[bytes], row: int, column: int) -> int:
    """A code, by the page's table of the bytes of elements; `octets` has the rows of `weight`."""
    warp, h, g = row % 64 // 16, row % 16 // 8, row % 8
    step, high, c, element = column % 64 // 16, column % 16 // 8, column % 8 // 2, column % 2
    thread = 16 * (32 * warp + 4 * g + c)
    if packed.format in EIGHT_BITS:
        at = column // 32 * 2048 + thread + 8 * (step % 2) + 4 * high
        bits, pair = EIGHT_BITS[packed.format], h
    else:
        at = column // 64 * 2048 + thread + 4 * step
        bits, pair = FLOATING_BITS if packed.format in {"mxfp4", "nvfp4"} else INTEGER_BITS, 2 * high + h
    word = int.from_bytes(octets[row // 64][at : at + 4], "little")
    return sum((word >> 16 * element + at & 1) << bit for bit, at in enumerate(bits[pair]))


GROUPS = {"nvfp4": 16, "int8": 128, "e4m3": 128}


@pytest.mark.parametrize("kind", weight_formats.FORMATS)
def test_elements_lie_where_the_page_says(kind: str) -> None:
    weight = quantized(kind, 72, 160, GROUPS.get(kind, 32))
    packed = pack_weight(weight)
    octets, codes = octets_of(packed.weight), weight.codes.tolist()
    for row in range(72):
        for column in range(160):
            assert code_of(packed, octets, row, column) == codes[row][column], (row, column)


def scale_bytes(octets: list[bytes], row: int, column: int, group: int, size: int) -> bytes:
    """The bytes of the scale (and zero point) of an element, by the page's order of scales; `octets` has the
    rows of `scale`."""
    halves = 2 if group <= 64 else 1
    of_half = max(64 // group, 1) if halves == 2 else 1
    half = column % 128 // 64 if halves == 2 else 0
    warp, g, h = row % 64 // 16, row % 8, row % 16 // 8
    index = (((half * 4 + warp) * 8 + g) * of_half + (column % 64 // group if of_half > 1 else 0)) * 2 + h
    start = column // 128 * 64 * halves * of_half * size + index * size
    return octets[row // 64][start : start + size]


@pytest.mark.parametrize(("kind", "group"), KINDS)
def test_scales_lie_where_the_page_says(kind: str, group: int) -> None:
    weight = quantized(kind, 72, 160, group, dtype=torch.float16)
    packed = pack_weight(weight)
    size = {"mxfp4": 1, "nvfp4": 1, "int4_zp": 4}.get(kind, 2)
    octets = octets_of(packed.scale)
    for row in range(72):
        for column in range(0, 160, 16):
            at = 0 if group == -1 else column // group
            expected = bytes(weight.scales[row, at].reshape(1).view(torch.uint8).tolist())
            if weight.zeros is not None:
                point = torch.tensor([1024 + int(weight.zeros[row, at])], dtype=torch.float16)
                expected += bytes(point.view(torch.uint8).tolist())
            assert scale_bytes(octets, row, column, 128 if group == -1 else group, size) == expected


@pytest.mark.parametrize("kind", weight_formats.FORMATS)
def test_padding_is_zeros(kind: str) -> None:
    """Values of 0 with scales whose bits are 0."""
    group = GROUPS.get(kind, 32)
    packed = pack_weight(quantized(kind, 8, 32, group))
    zero, codes, scales = (
        {"int4": 8, "int8": 128}.get(kind, 0),
        octets_of(packed.weight),
        octets_of(packed.scale),
    )
    assert {code_of(packed, codes, row, column) for row in range(8, 64) for column in range(128)} == {zero}
    assert {code_of(packed, codes, row, column) for row in range(8) for column in range(32, 128)} == {zero}
    size = {"mxfp4": 1, "nvfp4": 1, "int4_zp": 4}.get(kind, 2)
    rows, column = (range(8, 64), 0) if group == 128 else (range(64), 32)
    beyond = [scale_bytes(scales, row, column, group, size) for row in rows]
    assert {octet for octets in beyond for octet in octets} == {0}


def test_tensors_are_contiguous() -> None:
    packed = pack_weight(quantized("int4", 128, 32, 32))
    with pytest.raises(ArgumentError, match=r"^weight: strides \(1, 2\), expected a contiguous tensor"):
        PackedWeight(packed.weight.t().contiguous().t(), packed.scale, 128, 32, "int4", 32, torch.bfloat16)
