"""Layouts of scale factors, against their index formulae written out again."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tilewright import row_shuffle, scale_factors
from tilewright.errors import ArgumentError, ArgumentTypeError

SHAPES = [(1, 128), (31, 256), (127, 136), (120, 64), (129, 80), (1, 16), (200, 257), (257, 1), (8, 512)]
BLOCKS = [16, 32]
TYPES = [torch.uint8, torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float32, torch.int32]
PADDING = {"128x4": (128, 4), "8x4": (8, 4), "linear": (1, 1)}


def ceil(value: int, divisor: int) -> int:
    return (value + divisor - 1) // divisor


def place(layout: str, row: int, column: int, count: int) -> int:
    """The formulae as they are published; `count` is the number of scales of a row."""
    tiles = ceil(count, 4)
    if layout == "128x4":
        return (
            ((row // 128) * tiles + column // 4) * 512
            + (row % 32) * 16
            + ((row % 128) // 32) * 4
            + column % 4
        )
    if layout == "8x4":
        return ((row // 8) * tiles + column // 4) * 32 + (row % 8) * 4 + column % 4
    return row * count + column


def numbered(rows: int, count: int, batch: tuple[int, ...] = ()) -> torch.Tensor:
    """Scales that are all different, and none 0."""
    total = rows * count
    for size in batch:
        total *= size
    return torch.arange(1, total + 1, dtype=torch.int32).reshape(*batch, rows, count)


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("rows", "k"), SHAPES)
def test_shapes_indices_and_memory_are_those_of_the_formulae(
    rows: int, k: int, block: int, layout: str
) -> None:
    count = ceil(k, block)
    down, across = PADDING[layout]
    padded = (ceil(rows, down) * down, ceil(count, across) * across)
    assert scale_factors.columns(k, block) == count
    assert scale_factors.padded_shape(rows, k, block, layout) == padded
    assert scale_factors.size(rows, k, block, layout) == padded[0] * padded[1]
    assert scale_factors.size(rows, k, block, layout, batch=3) == 3 * padded[0] * padded[1]

    scales = numbered(rows, count)
    stored = scale_factors.swizzle(scales, layout)
    assert stored.shape == padded
    assert stored.is_contiguous()
    expected = [0] * (padded[0] * padded[1])
    for row in range(rows):
        for column in range(count):
            at = place(layout, row, column, count)
            assert scale_factors.index(row, column, k, block, layout) == at
            expected[at] = int(row * count + column + 1)
    assert stored.flatten().tolist() == expected  # and 0 everywhere else
    assert torch.equal(scale_factors.unswizzle(stored, rows, k, block, layout), scales)
    assert torch.equal(scale_factors.unswizzle(stored.flatten(), rows, k, block, layout), scales)


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_indices_of_the_padded_matrix_are_all_places_once(layout: str) -> None:
    rows, k, block = 130, 100, 16
    padded = scale_factors.padded_shape(rows, k, block, layout)
    places = [
        scale_factors.index(row, column, k, block, layout, batch=batch, rows=rows)
        for batch in range(2)
        for row in range(padded[0])
        for column in range(padded[1])
    ]
    assert sorted(places) == list(range(2 * padded[0] * padded[1]))


def test_known_places() -> None:
    """Numbers worked out by hand, so that one mistake made twice would show."""
    assert scale_factors.index(0, 5, 128, 16) == 513
    assert scale_factors.index(33, 2, 64, 16) == 16 + 4 + 2
    assert scale_factors.index(127, 3, 64, 16) == 511
    assert scale_factors.index(128, 0, 80, 16) == 1024  # 5 columns: two tiles to a row of tiles
    assert scale_factors.index(9, 6, 128, 16, "8x4") == 64 + 32 + 4 + 2
    assert scale_factors.index(2, 1, 80, 16, "linear") == 11
    assert scale_factors.index(0, 0, 80, 16, batch=2, rows=129) == 2 * 256 * 8


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_dtype_keeps_its_bits_and_its_padding_is_zero_bits(dtype: torch.dtype, layout: str) -> None:
    raw = torch.randint(1, 256, (37, 7 * dtype.itemsize), dtype=torch.uint8)
    scales = raw.view(dtype)  # every bit pattern but zero bytes, NaNs among them
    stored = scale_factors.swizzle(scales, layout)
    assert stored.dtype == dtype
    assert int((stored.view(torch.uint8) != 0).sum()) == raw.numel()
    back = scale_factors.unswizzle(stored, 37, 7 * 16, 16, layout)
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), raw)


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
@pytest.mark.parametrize("batch", [(3,), (2, 2), (0,)])
def test_batches_follow_one_another_each_padded(batch: tuple[int, ...], layout: str) -> None:
    rows, k, block = 33, 96, 16
    scales = numbered(rows, 6, batch)
    stored = scale_factors.swizzle(scales, layout)
    each = scale_factors.padded_shape(rows, k, block, layout)
    assert stored.shape == (*batch, *each)
    for expected, actual in zip(scales.reshape(-1, rows, 6), stored.reshape(-1, *each), strict=True):
        assert torch.equal(actual, scale_factors.swizzle(expected, layout))
    assert torch.equal(scale_factors.unswizzle(stored, rows, k, block, layout), scales)
    flat = stored.reshape(*batch, each[0] * each[1])
    assert torch.equal(scale_factors.unswizzle(flat, rows, k, block, layout), scales)


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_strided_scales_and_poisoned_padding(layout: str) -> None:
    wide = torch.full((40, 10), 255, dtype=torch.uint8)
    wide[2:35, 1:6] = 7
    stored = scale_factors.swizzle(wide[2:35, 1:6], layout)
    assert int((stored == 255).sum()) == 0
    assert int((stored == 7).sum()) == 33 * 5
    transposed = torch.arange(1, 36, dtype=torch.uint8).reshape(5, 7).T
    assert torch.equal(
        scale_factors.swizzle(transposed, layout), scale_factors.swizzle(transposed.contiguous(), layout)
    )
    # What padding holds is not read back.
    poisoned = scale_factors.swizzle(torch.full((33, 5), 7, dtype=torch.uint8), layout)
    poisoned[poisoned == 0] = 255
    assert torch.equal(
        scale_factors.unswizzle(poisoned, 33, 80, 16, layout), torch.full((33, 5), 7, dtype=torch.uint8)
    )


@pytest.mark.parametrize(("rows", "k"), [(0, 64), (5, 0), (0, 0)])
@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_empty_matrices(rows: int, k: int, layout: str) -> None:
    stored = scale_factors.swizzle(torch.zeros(rows, ceil(k, 16)), layout)
    assert stored.shape == scale_factors.padded_shape(rows, k, 16, layout)
    assert scale_factors.size(rows, k, 16, layout) == stored.numel()
    assert scale_factors.unswizzle(stored, rows, k, 16, layout).shape == (rows, ceil(k, 16))


def test_a_buffer_without_its_padding_is_refused_by_name_and_numbers() -> None:
    scales = torch.zeros(31, 16, dtype=torch.uint8)
    with pytest.raises(
        ArgumentError, match=r"\(31, 16\), expected \[\.\.\., 128, 16\] or \[\.\.\., 2048\]"
    ) as e:
        scale_factors.unswizzle(scales, 31, 256, 16)
    assert e.value.argument == "swizzled"
    # Right bytes in the shape of the unpadded columns: another matrix.
    with pytest.raises(ArgumentError):
        scale_factors.unswizzle(torch.zeros(205, 5, dtype=torch.uint8), 128, 80, 16)
    # Right for the other layouts.
    for layout in ("8x4", "linear"):
        stored = scale_factors.swizzle(scales, layout)
        with pytest.raises(ArgumentError, match="128x4"):
            scale_factors.unswizzle(stored, 31, 256, 16)
    with pytest.raises(ArgumentError) as e:
        scale_factors.check_shape("b_descale", (64, 128), rows=128, k=256, block=16)
    assert e.value.argument == "b_descale"
    assert scale_factors.check_shape("x", (7, 128, 16), rows=128, k=256, block=16) == (7,)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("layout", lambda: scale_factors.padded_shape(1, 16, 16, "4x128")),
        ("layout", lambda: scale_factors.swizzle(torch.zeros(2, 2), "128X4")),
        ("rows", lambda: scale_factors.padded_shape(-1, 16, 16)),
        ("k", lambda: scale_factors.size(1, -16, 16)),
        ("block", lambda: scale_factors.padded_shape(1, 16, 0)),
        ("batch", lambda: scale_factors.size(1, 16, 16, batch=-1)),
        ("row", lambda: scale_factors.index(-1, 0, 16, 16)),
        ("row", lambda: scale_factors.index(128, 0, 16, 16, rows=1)),
        ("column", lambda: scale_factors.index(0, 4, 16, 16)),
        ("rows", lambda: scale_factors.index(0, 0, 16, 16, batch=1)),
        ("scales", lambda: scale_factors.swizzle(torch.zeros(4))),
    ],
)
def test_wrong_arguments_are_named(argument: str, call: object) -> None:
    with pytest.raises(ArgumentError) as e:
        call()  # type: ignore[operator]
    assert e.value.argument == argument


@pytest.mark.parametrize("value", [1.0, True, "8"])
def test_sizes_are_integers(value: object) -> None:
    with pytest.raises(ArgumentTypeError, match="rows"):
        scale_factors.padded_shape(value, 16, 16)  # type: ignore[arg-type]


def test_importing_needs_no_torch() -> None:
    code = "import sys, tilewright.scale_factors as s; s.size(1, 16, 16); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rows_are_shuffled_as_the_formula_says() -> None:
    """Row r of the matrix is stored as row 32*(r/32) + (r%4)*8 + (r%32)/4."""
    matrix = torch.arange(2 * 96 * 3).reshape(2, 96, 3)
    stored = row_shuffle.shuffle_rows(matrix)
    for row in range(96):
        place = 32 * (row // 32) + row % 4 * 8 + row % 32 // 4
        assert place == row_shuffle.shuffled_row(row)
        assert torch.equal(stored[:, place], matrix[:, row])
    assert torch.equal(row_shuffle.unshuffle_rows(stored), matrix)
    with pytest.raises(ArgumentError, match="100 rows, expected a multiple of 32"):
        row_shuffle.shuffle_rows(torch.zeros(100, 3))
