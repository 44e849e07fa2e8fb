"""Scales of blocks of 128, where DeepGEMM's kernels read them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tilewright import blockwise_scales
from tilewright.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (5, 7), (3, 6, 2), (2, 3, 9, 5)])
def test_m_major_scales_lie_as_deepgemm_reads_them(shape: tuple[int, ...]) -> None:
    *batch, m, columns = shape
    scales = torch.randn(shape)
    made = blockwise_scales.m_major(scales)
    assert torch.equal(made, scales)
    ld = -(-m // 4) * 4
    memory = blockwise_scales.with_padding(made)
    assert memory.shape == (*batch, columns, ld)
    assert memory.is_contiguous()
    assert memory.data_ptr() == made.data_ptr()
    flat = torch.as_strided(made, (math.prod(batch) * columns * ld,), (1,)).tolist()
    of_matrix = scales.reshape(-1, m, columns)
    for b, matrix in enumerate(of_matrix):
        for r in range(ld):
            for c in range(columns):
                expected = float(matrix[r, c]) if r < m else 0.0
                assert flat[b * columns * ld + c * ld + r] == expected


@pytest.mark.parametrize("shape", [(1, 1), (5, 4), (6, 5), (2, 7, 9)])
def test_packed_scales_hold_four_bytes_the_first_lowest(shape: tuple[int, ...]) -> None:
    *batch, m, columns = shape
    codes = torch.randint(0, 256, shape, dtype=torch.uint8)
    packed = blockwise_scales.pack(codes)
    assert packed.shape == (*batch, m, -(-columns // 4))
    assert packed.stride()[-2:] == (1, -(-m // 4) * 4)
    assert torch.equal(blockwise_scales.unpack(packed, columns).view(torch.uint8), codes)
    for row, words in zip(
        codes.reshape(-1, columns).tolist(), packed.reshape(-1, packed.shape[-1]).tolist(), strict=True
    ):
        padded = [*row, 0, 0, 0][: 4 * len(words)]
        assert words == [struct.unpack("<i", bytes(padded[4 * w : 4 * w + 4]))[0] for w in range(len(words))]


def test_the_stride_of_one_row_of_scales_means_nothing() -> None:
    scales = torch.zeros(12).as_strided((1, 3), (7, 4))
    assert blockwise_scales.lies_m_major(scales)
    assert blockwise_scales.with_padding(scales).shape == (3, 4)


def test_scales_without_their_padding_are_refused() -> None:
    with pytest.raises(ArgumentError, match="memory for"):
        blockwise_scales.with_padding(torch.empty_strided((5, 3), (1, 8)))
    with pytest.raises(ArgumentError, match=r"memory for 22 scales, expected strides .* and 24"):
        blockwise_scales.with_padding(torch.empty(24).as_strided((5, 3), (1, 8), storage_offset=2))
    with pytest.raises(ArgumentError, match="expected strides"):
        blockwise_scales.with_padding(torch.empty(5, 3))
    with pytest.raises(ArgumentTypeError, match="one byte"):
        blockwise_scales.pack(torch.zeros(2, 2))
    with pytest.raises(ArgumentError, match="expected int32"):
        blockwise_scales.unpack(torch.zeros(2, 2, dtype=torch.int32), 9)


def test_scales_of_no_columns_are_packed_into_no_words() -> None:
    for codes in (torch.zeros(5, 0, dtype=torch.uint8), torch.zeros(0, 5, dtype=torch.uint8)):
        packed = blockwise_scales.pack(codes)
        assert packed.shape == (codes.shape[0], -(-codes.shape[1] // 4))
        assert packed.dtype == torch.int32
        assert blockwise_scales.unpack(packed, codes.shape[1]).shape == codes.shape


@pytest.mark.parametrize("scales", [torch.zeros(()), torch.zeros(4), "scales", None], ids=str)
def test_what_is_no_matrix_of_scales_is_refused(scales: Any) -> None:
    """Also by `unpack`, whose tensor has words of the right number."""
    calls: list[Callable[[Any], Any]] = [
        blockwise_scales.m_major, blockwise_scales.with_padding, blockwise_scales.lies_m_major,
        lambda x: blockwise_scales.pack(x.to(torch.uint8) if isinstance(x, torch.Tensor) else x),
        lambda x: blockwise_scales.unpack(x.int() if isinstance(x, torch.Tensor) else x, 16),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ArgumentError, match=r"expected (a tensor )?\[..., m, (columns|words)\]"):
            call(scales)
