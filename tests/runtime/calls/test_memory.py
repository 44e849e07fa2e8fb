"""Where tensors lie, and copies of operands: whole 16 bytes, zeros behind them."""

from __future__ import annotations

import pytest
import torch

from tilewright.calls.copies import copy_of
from tilewright.calls.memory import overlap, padded
from tilewright.declarations.declaration import Matrix
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import Problem


@pytest.mark.parametrize("layout", ["tn", "nt", "tt", "nn"])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 13), (3, 9, 1), (16, 24, 32), (1, 1, 8)])
@pytest.mark.parametrize("batch", [None, 2])
def test_copies_begin_where_tma_reads(layout: str, m: int, n: int, k: int, batch: int | None) -> None:
    problem = Problem(m, n, k, batch or 1, layout=layout)
    for name, extents in (("a", (m, k)), ("b", (k, n))):
        operand = INTERFACE.operand(name)
        assert isinstance(operand, Matrix)
        shape = extents if batch is None else (batch, *extents)
        x = torch.randn(shape).bfloat16()
        copy = copy_of(operand, x, problem)
        assert torch.equal(copy, x)
        by_rows = operand.inner(problem) == "columns"
        step, outer = (copy.stride(-1), copy.stride(-2)) if by_rows else (copy.stride(-2), copy.stride(-1))
        inner = shape[-1] if by_rows else shape[-2]
        assert step == 1
        assert outer == -(-inner // 8) * 8, "rows begin at the next multiple of 16 bytes"
        assert batch is None or copy.stride(0) % 8 == 0
        assert copy.data_ptr() % 16 == 0
        room = copy.as_strided((copy.untyped_storage().nbytes() // 2,), (1,))
        assert room.count_nonzero() == x.count_nonzero(), "what is between rows is 0"


def test_a_longer_copy_is_0_behind_what_it_copies() -> None:
    x = torch.full((2, 5, 6), 7.0)
    for _ in range(20):  # memory that is used again
        torch.full((2, 8, 16), torch.nan)
        made = padded(x, 8, 16)
        assert made.shape == (2, 8, 16)
        assert torch.equal(made[:, :5, :6], x)
        assert made.sum() == x.sum()


def pieces(room: torch.Tensor, *ends: tuple[int, int]) -> list[torch.Tensor]:
    return [room[start:end] for start, end in ends]


def test_runs_that_touch_do_not_overlap() -> None:
    room = torch.zeros(64, dtype=torch.bfloat16)
    first, second = pieces(room, (0, 16), (16, 32))
    assert not overlap(first, second)
    assert not overlap(second, first)
    assert overlap(room[:17], second)
    wide = room.view(4, 16)
    for split in (1, 8, 15):  # columns side by side
        left, right = wide[:, :split], wide[:, split:]
        assert not overlap(left, right)
        assert not overlap(right, left)
        assert overlap(wide[:, : split + 1], right)
        assert overlap(left, wide[:, split - 1 :])
    assert not overlap(wide[::2], wide[1::2])
    assert overlap(wide[:3], wide[2:])
    assert not overlap(wide[:, :0], wide)
