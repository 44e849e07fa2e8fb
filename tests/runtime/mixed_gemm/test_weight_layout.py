"""The packed layout of weights: `unpack` undoes `pack`, and what `pack` refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tilewright import weight_formats, weight_layout
from tilewright.errors import ArgumentError
from tilewright.weight_formats import FORMATS, WHOLE_ROW

DTYPES = {
    "int4": ("bfloat16", "float16"), "int4_zp": ("bfloat16", "float16"), "mxfp4": ("float8_e8m0fnu",),
    "nvfp4": ("float8_e4m3fn",), "int8": ("bfloat16", "float16"), "e4m3": ("bfloat16", "float16"),
}  # fmt: skip
KINDS = [
    (name, group, dtype) for name, kind in FORMATS.items() for group in kind.groups for dtype in DTYPES[name]
]


def weight(name: str, group: int, dtype: str, n: int, k: int) -> dict[str, Any]:
    """Codes and scales of any bits."""
    random = torch.Generator().manual_seed(n + k)
    kind = FORMATS[name]
    columns = 1 if group == WHOLE_ROW else -(-k // group)
    scales = torch.randint(256, (n, columns * kind.scale_bytes), generator=random, dtype=torch.uint8)
    zeros = torch.randint(16, (n, columns), generator=random, dtype=torch.uint8) if kind.zeros else None
    codes = torch.randint(1 << kind.bits, (n, k), generator=random, dtype=torch.uint8)
    return {
        "codes": codes.where((codes & 0x7F) != 0x7F, 0) if name == "e4m3" else codes,
        "scales": scales.view(getattr(torch, dtype)), "zeros": zeros, "format": name, "group": group,
    }  # fmt: skip


@pytest.mark.parametrize(("n", "k"), [(64, 128), (8, 32), (72, 160), (200, 416)])
@pytest.mark.parametrize(("name", "group", "dtype"), KINDS)
def test_unpack_undoes_pack(name: str, group: int, dtype: str, n: int, k: int) -> None:
    given = weight(name, group, dtype, n, k)
    packed = weight_layout.pack(**given)
    shapes = weight_formats.packed_shapes(n, k, name, group)
    assert (tuple(packed.weight.shape), tuple(packed.scale.shape)) == shapes
    codes, scales, zeros = weight_layout.unpack(
        packed, n, k, format=name, group=group, scale_dtype=given["scales"].dtype
    )
    assert torch.equal(codes, given["codes"])
    assert torch.equal(scales.view(torch.uint8), given["scales"].view(torch.uint8))
    assert (zeros is None) == (given["zeros"] is None)
    assert zeros is None or torch.equal(zeros, given["zeros"])


def test_a_piece_has_the_elements_where_the_page_says() -> None:
    """Element (row, column) in the word and the bits of docs/packed_weights.md."""
    for row, column in ((0, 0), (9, 3), (37, 77), (63, 127), (24, 58)):
        codes = torch.full((64, 128), 8, dtype=torch.uint8)
        codes[row, column] = 13
        packed = weight_layout.pack(codes, torch.ones(64, 1).bfloat16(), format="int4", group=128)
        piece, within = divmod(column, 64)
        warp, h, g = row // 16, row % 16 // 8, row % 8
        step, high, c, second = within // 16, within % 16 // 8, within % 8 // 2, within % 2
        place = piece * 2048 + (warp * 32 + g * 4 + c) * 16 + step * 4
        word = int.from_bytes(bytes(packed.weight[0, place : place + 4].tolist()), "little")
        shift = 16 * second + 4 * (2 * high + h)
        assert word == 0x88888888 ^ (8 ^ 13) << shift


def test_a_piece_has_elements_of_8_bits_where_the_page_says() -> None:
    for row, column in ((0, 0), (9, 3), (37, 77), (63, 127), (24, 58)):
        codes = torch.full((64, 128), 0x80, dtype=torch.uint8)
        codes[row, column] = 0xA5
        packed = weight_layout.pack(codes, torch.ones(64, 1).bfloat16(), format="int8", group=128)
        part, within = divmod(column, 32)
        warp, h, g = row // 16, row % 16 // 8, row % 8
        step, high, c, second = within // 16, within % 16 // 8, within % 8 // 2, within % 2
        place = part * 2048 + (warp * 32 + g * 4 + c) * 16 + step * 8 + high * 4
        word = int.from_bytes(bytes(packed.weight[0, place : place + 4].tolist()), "little")
        assert word == 0x80808080 ^ (0x80 ^ 0xA5) << (16 * second + 8 * h)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"format": "int5"}, "int4_zp, mxfp4, nvfp4, int8, e4m3, got 'int5'"),
    ({"codes": torch.zeros(64, 128)}, "expected uint8"),
    ({"codes": torch.zeros(12, 128, dtype=torch.uint8)}, "multiple of 8, got 12"),
    ({"codes": torch.zeros(64, 40, dtype=torch.uint8)}, "multiple of 32, got 40"),
    ({"group": 48}, "got 48"),
    ({"scales": torch.ones(64, 2).bfloat16()}, "expected shape (64, 1)"),
    ({"scales": torch.ones(64, 1)}, "expected bfloat16 or float16 for int4, got float32"),
    ({"zeros": torch.ones(64, 1, dtype=torch.uint8)}, "int4 has no zero points"),
    ({"format": "int4_zp"}, "int4_zp has zero points"),
    ({"format": "int4_zp", "zeros": torch.ones(64, 2, dtype=torch.uint8)}, "expected uint8 (64, 1)"),
    ({"codes": torch.full((64, 128), 16, dtype=torch.uint8)}, "0 to 15"),
    ({"format": "int8", "group": 64}, "expected one of (128, -1) for int8, got 64"),
    ({"format": "e4m3", "codes": torch.full((64, 128), 0xFF, dtype=torch.uint8)}, "got NaN"),
    ({"format": "int8", "zeros": torch.ones(64, 1, dtype=torch.uint8)}, "int8 has no zero points"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    given = {
        "codes": torch.zeros(64, 128, dtype=torch.uint8), "scales": torch.ones(64, 1).bfloat16(),
        "format": "int4", "group": 128,
    }  # fmt: skip
    weight_layout.pack(**given)
    with pytest.raises(ArgumentError) as caught:
        weight_layout.pack(**given | change)
    assert message in str(caught.value)
