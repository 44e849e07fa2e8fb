"""Comparing tensors."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.tools.reference.comparison import difference as calc_diff

__all__ = ["assert_bitwise_equal", "calc_diff", "count_bytes"]


def count_bytes(*tensors: Any) -> int:
    """Bytes of tensors, in tuples and lists too; None counts as nothing."""
    total = 0
    for tensor in tensors:
        if isinstance(tensor, (tuple, list)):
            total += count_bytes(*tensor)
        elif tensor is not None:
            total += tensor.numel() * tensor.element_size()
    return total


def assert_bitwise_equal(x: torch.Tensor, y: torch.Tensor, label: str = "") -> None:
    """Raises AssertionError where a byte differs: it says how many elements do, and the first."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype), f"{label}: {x.dtype} {x.shape}, {y.dtype} {y.shape}"
    codes = [tensor.contiguous().view(torch.uint8).reshape(x.numel(), x.element_size()) for tensor in (x, y)]
    differ = (codes[0] != codes[1]).any(dim=1).nonzero()
    if len(differ):
        first = int(differ[0])
        at = tuple(int(i) for i in torch.unravel_index(differ[0, 0], x.shape))
        values = [bytes(tensor[first].tolist()).hex() for tensor in codes]
        raise AssertionError(
            f"{label}: {len(differ)} elements differ; at {at} are {values[0]} and {values[1]}"
        )
