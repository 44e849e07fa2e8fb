"""Comparing tensors."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.reference.comparison import difference as calc_diff

__all__ = ["assert_bitwise_equal", "calc_diff", "count_bytes"]


def count_bytes(*tensors: Any) -> int:
    """Bytes of tensors, in tuples and lists too; None counts as nothing."""
    total = 0
    for each in tensors:
        if isinstance(each, (tuple, list)):
            total += count_bytes(*each)
        elif each is not None:
            total += each.numel() * each.element_size()
    return total


def assert_bitwise_equal(x: torch.Tensor, y: torch.Tensor, label: str = "") -> None:
    """Raises AssertionError where a byte differs: it says how many elements do, and the first."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype), f"{label}: {x.dtype} {x.shape}, {y.dtype} {y.shape}"
    codes = [each.contiguous().view(torch.uint8).reshape(x.numel(), x.element_size()) for each in (x, y)]
    differ = (codes[0] != codes[1]).any(dim=1).nonzero()
    if len(differ):
        first = int(differ[0])
        at = tuple(int(i) for i in torch.unravel_index(differ[0, 0], x.shape))
        given = [bytes(each[first].tolist()).hex() for each in codes]
        raise AssertionError(f"{label}: {len(differ)} elements differ; at {at} are {given[0]} and {given[1]}")
