"""Where the scale factors of block-scaled matrices lie in memory, and how to put them there.

A matrix of `rows` x `k` elements whose blocks of `block` elements along k share a scale has `rows` x
ceil(k/block) scales. With `row` and `column` of a scale, and KT = ceil(ceil(k/block)/4), it is stored at

    128x4:   ((row/128)*KT + column/4)*512 + (row%32)*16 + ((row%128)/32)*4 + column%4
    8x4:     ((row/8)*KT + column/4)*32 + (row%8)*4 + column%4
    linear:  row*ceil(k/block) + column

in scales (bytes, for E4M3 and UE8M0). 128x4 is what Blackwell's block-scaled MMAs read (CUTLASS's
`Sm1xxBlockScaledConfig`). 128x4 and 8x4 consist of whole tiles: rows are padded to 128 or 8, columns to 4,
and the padding is always 0, because kernels read it. Matrices of a batch follow one another, each padded.

Functions take tensors of torch of any dtype and device; importing this module imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from tilewright.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import torch

LayoutName = Literal["128x4", "8x4", "linear"]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A layout is a row-major grid of tiles; in a tile, scales lie in the order [inner][outer][columns]."""

    rows: int
    inner: int  # rows of a tile that lie next to each other in the matrix and far apart in memory
    columns: int

    @property
    def outer(self) -> int:
        return self.rows // self.inner

    @property
    def size(self) -> int:
        return self.rows * self.columns


_TILES: dict[str, _Tile] = {
    "128x4": _Tile(rows=128, inner=32, columns=4),
    "8x4": _Tile(rows=8, inner=8, columns=4),
    "linear": _Tile(rows=1, inner=1, columns=1),
}
LAYOUTS: tuple[LayoutName, ...] = get_args(LayoutName)


def columns(k: int, block: int) -> int:
    """Scales of a row of `k` elements: ceil(k/block). A last, partial block has a scale of its own."""
    if _whole("block", block) == 0:
        raise ArgumentError("block", "0 elements share a scale, expected 1 or more")
    return -(-_whole("k", k) // block)


def padded_shape(rows: int, k: int, block: int, layout: LayoutName = "128x4") -> tuple[int, int]:
    """Rows and columns of scales, padding included, of a matrix of `rows` x `k` elements.

    A 2-D tensor of this shape has the bytes of one matrix's scales; a view by the unpadded column count is
    another matrix.

    Raises:
        ArgumentError: a size is negative, `block` is 0, or the layout is unknown.
    """
    columns(k, block)  # for its checks
    return padded(_whole("rows", rows), k, block, layout)


def padded(rows: int, k: int, block: int, layout: LayoutName = "128x4") -> tuple[int, int]:
    """`padded_shape` without its checks, also for sizes that are symbols."""
    tile = _tile(layout)
    return _round_up(rows, tile.rows), _round_up(-(-k // block), tile.columns)


def size(rows: int, k: int, block: int, layout: LayoutName = "128x4", *, batch: int = 1) -> int:
    """Scales (bytes, for 1-byte types) that `batch` matrices of `rows` x `k` elements take, with padding."""
    return _whole("batch", batch) * math.prod(padded_shape(rows, k, block, layout))


def index(
    row: int,
    column: int,
    k: int,
    block: int,
    layout: LayoutName = "128x4",
    *,
    batch: int = 0,
    rows: int | None = None,
) -> int:
    """Where the scale of `row` (a row of the matrix) and `column` (an element's k / block) lies.

    Counted in scales from the first one's address, by the formulae at the head of this module; padding may
    be asked for too. `batch` b adds b * padded rows * padded columns, for which `rows` is needed.

    Raises:
        ArgumentError: an index is negative or beyond the padded shape, or `batch` came without `rows`.
    """
    tile = _tile(layout)
    width = _round_up(columns(k, block), tile.columns)
    start = 0
    if rows is not None:
        height = _round_up(_whole("rows", rows), tile.rows)
        _within("row", row, height)
        start = _whole("batch", batch) * height * width
    elif batch:
        raise ArgumentError(
            "rows", "not given, expected the number of rows of a matrix: it says where each batch begins"
        )
    _within("column", column, width)
    tiles = _whole("row", row) // tile.rows * (width // tile.columns) + column // tile.columns
    inner, outer = row % tile.inner, row % tile.rows // tile.inner
    return start + tiles * tile.size + (inner * tile.outer + outer) * tile.columns + column % tile.columns


def swizzle(scales: torch.Tensor, layout: LayoutName = "128x4") -> torch.Tensor:
    """Scales [..., rows, columns] into a layout: a new contiguous tensor [..., padded rows, padded columns].

    The result's memory is what a kernel reads; its 2-D shape is a view of that and means nothing else. The
    padding is 0.

    Raises:
        ArgumentError: `scales` has less than two dimensions, or the layout is unknown.
    """
    tile = _tile(layout)
    if scales.ndim < 2:
        raise ArgumentError("scales", f"shape {tuple(scales.shape)}, expected [..., rows, columns]")
    rows, width = scales.shape[-2:]
    batch = tuple(scales.shape[:-2])
    padded = (_round_up(rows, tile.rows), _round_up(width, tile.columns))
    source = _bytes(scales)
    wide = source.new_zeros((*batch, *padded))
    wide[..., :rows, :width] = source
    parts = wide.reshape(
        *batch, padded[0] // tile.rows, tile.outer, tile.inner, padded[1] // tile.columns, tile.columns
    )
    # Of (row tile, outer, inner, column tile, column) memory has the order (0, 3, 2, 1, 4).
    stored = parts.movedim((-2, -3, -4), (-4, -3, -2)).contiguous()
    return stored.reshape(*batch, *padded).view(scales.dtype)


def unswizzle(
    swizzled: torch.Tensor, rows: int, k: int, block: int, layout: LayoutName = "128x4"
) -> torch.Tensor:
    """Undoes `swizzle`: the scales [..., rows, ceil(k/block)] of matrices of `rows` x `k` elements.

    `swizzled` is [..., padded rows, padded columns] or [..., padded rows * padded columns].

    Raises:
        ArgumentError: `swizzled` has another size (an unpadded buffer, say), or a size or layout is wrong.
    """
    batch = check_shape("swizzled", swizzled.shape, rows=rows, k=k, block=block, layout=layout)
    tile = _tile(layout)
    padded = padded_shape(rows, k, block, layout)
    parts = _bytes(swizzled).reshape(
        *batch, padded[0] // tile.rows, padded[1] // tile.columns, tile.inner, tile.outer, tile.columns
    )
    wide = parts.movedim((-4, -3, -2), (-2, -3, -4)).reshape(*batch, *padded)
    return wide[..., :rows, : columns(k, block)].contiguous().view(swizzled.dtype)


def check_shape(
    argument: str, shape: Sequence[int], *, rows: int, k: int, block: int, layout: LayoutName = "128x4"
) -> tuple[int, ...]:
    """The batch dimensions of a scale tensor of this shape: what precedes [padded rows, padded columns].

    A flat tensor [..., padded rows * padded columns] is right as well.

    Raises:
        ArgumentError: names `argument`, the shape given and the one wanted.
    """
    padded = padded_shape(rows, k, block, layout)
    actual = tuple(shape)
    if actual[-2:] == padded:
        return actual[:-2]
    if actual[-1:] == (math.prod(padded),):
        return actual[:-1]
    raise ArgumentError(
        argument,
        f"shape {actual}, expected [..., {padded[0]}, {padded[1]}] or [..., {math.prod(padded)}]: "
        f"{rows} x {columns(k, block)} scales, padded as layout {layout} is",
    )


def _tile(layout: str) -> _Tile:
    if layout not in _TILES:
        raise ArgumentError("layout", f"{layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    return _TILES[layout]


def _whole(argument: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(argument, f"{type(value).__name__}, expected an integer")
    if value < 0:
        raise ArgumentError(argument, f"{value}, expected 0 or more")
    return value


def _within(argument: str, value: int, limit: int) -> None:
    if _whole(argument, value) >= limit:
        raise ArgumentError(argument, f"{value}, expected less than {limit} (padding included)")


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _bytes(scales: torch.Tensor) -> torch.Tensor:
    """1-byte types as unsigned integers: torch neither pads nor permutes all of its 8-bit floats."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    return scales.view(torch.uint8) if scales.element_size() == 1 else scales
