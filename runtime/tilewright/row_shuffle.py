"""The order of rows that TensorRT-LLM's generated GEMMs want of a weight: FlashInfer's `do_shuffle`.

Their epilogue works on 128 rows, of which each thread holds neighbours in the tensor core's order. So that it
stores what lies together, each 32 rows of the weight are stored transposed, as 4 x 8 instead of 8 x 4: the
row r of the matrix is stored as row

    32*(r/32) + (r%4)*8 + (r%32)/4

and a row's scale factors go with it, before they are put into a layout. (FlashInfer's `shuffle_matrix_a` and
`shuffle_matrix_sf_a` with an `epilogue_tile_m` of 128.) Blocks of FP4 and MXFP8 lie within a row, so that to
quantise shuffled rows and to shuffle what was quantised is the same.

Functions take tensors of torch of any dtype and device; importing this module imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import ArgumentError

if TYPE_CHECKING:
    import torch

ROWS = 32  # that change places with each other
_RUN = 4  # neighbours that are stored ROWS / _RUN rows apart


def shuffled_row(row: int) -> int:
    """The place at which a row is stored."""
    within = row % ROWS
    return row - within + within % _RUN * (ROWS // _RUN) + within // _RUN


def shuffle_rows(matrix: torch.Tensor) -> torch.Tensor:
    """The rows of [..., m, k] in the order in which they are stored, as a copy.

    Raises:
        ArgumentError: m is no multiple of 32, or there are less than two dimensions.
    """
    return _transposed(matrix, ROWS // _RUN)


def unshuffle_rows(matrix: torch.Tensor) -> torch.Tensor:
    """Undoes `shuffle_rows`."""
    return _transposed(matrix, _RUN)


def check_rows(argument: str, rows: int) -> None:
    """Raises ArgumentError, which names `argument`, unless `rows` is a multiple of 32."""
    if rows % ROWS:
        raise ArgumentError(argument, f"{rows} rows, expected a multiple of {ROWS} to shuffle")


def _transposed(matrix: torch.Tensor, outer: int) -> torch.Tensor:
    if matrix.ndim < 2:
        raise ArgumentError("matrix", f"shape {tuple(matrix.shape)}, expected [..., m, k]")
    *batch, rows, width = matrix.shape
    check_rows("matrix", rows)
    parts = matrix.reshape(*batch, rows // ROWS, outer, ROWS // outer, width)
    return parts.transpose(-3, -2).contiguous().reshape(*batch, rows, width)
