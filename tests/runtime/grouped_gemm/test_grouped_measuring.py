"""What is measured: the rows of a masked product's groups, and which products of BF16."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilewright.errors import ArgumentError
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem


def operands_of(m: int, expected_m: int) -> Any:
    problem = Problem(m, 512, 512, 64, grouping="rows_valid", expected_m=expected_m)
    return SimpleNamespace(problem=problem, rows_valid=torch.zeros(64, dtype=torch.int32))


@pytest.mark.parametrize(("m", "expected_m", "least", "most"), [(512, 100, 70, 130), (110, 100, 70, 110)])
def test_rows_are_drawn_anew_around_the_expected_number(
    m: int, expected_m: int, least: int, most: int
) -> None:
    operands, generator = operands_of(m, expected_m), torch.Generator().manual_seed(3)
    tensor, draws = operands.rows_valid, []
    for _ in range(4):
        measuring.redraw_rows(operands, generator)
        assert operands.rows_valid is tensor  # a captured graph reads the same memory
        draws.append(tensor.tolist())
    assert all(least <= count <= most for counts in draws for count in counts)
    assert len({tuple(counts) for counts in draws}) == len(draws)
    assert max(draws[0]) - min(draws[0]) > 20


def test_all_rows_count_if_no_number_is_expected() -> None:
    operands = operands_of(48, 0)
    measuring.redraw_rows(operands, torch.Generator().manual_seed(3))
    assert set(operands.rows_valid.tolist()) == {48}


def test_bf16_products_have_groups() -> None:
    """BF16 products without groups are of `gemm`: no op of this family computes them."""
    size = {"m": 256, "n": 512, "k": 512}
    assert FAMILY.words.make(size, {}).grouping == "none"
    assert FAMILY.words.make(size, {"types": "bf16"}).grouping == "row_index"
    with pytest.raises(ArgumentError, match="grouping: none: expected one of row_index, ends"):
        FAMILY.words.make(size, {"types": "bf16", "grouping": "none"})
