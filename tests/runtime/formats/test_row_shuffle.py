"""The order of rows for the epilogue of weights that TensorRT-LLM shuffles."""

from __future__ import annotations

import pytest
import torch

from tilewright import row_shuffle
from tilewright.errors import ArgumentError


def test_the_row_shuffle() -> None:
    """The first 32 rows go to these places: the formula of the head, written out."""
    places = [
        0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27,
        4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31,
    ]  # fmt: skip
    assert [row_shuffle.shuffled_row(row) for row in range(32)] == places
    matrix = torch.arange(2 * 96 * 3).reshape(2, 96, 3)
    shuffled = row_shuffle.shuffle_rows(matrix)
    for row in range(96):
        assert row_shuffle.shuffled_row(row) == row // 32 * 32 + places[row % 32]
        assert torch.equal(shuffled[:, row_shuffle.shuffled_row(row)], matrix[:, row])
    assert torch.equal(row_shuffle.unshuffle_rows(shuffled), matrix)
    with pytest.raises(ArgumentError, match="multiple of 32"):
        row_shuffle.shuffle_rows(matrix[:, :33])
