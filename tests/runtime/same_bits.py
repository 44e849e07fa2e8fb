"""Comparisons to the bit, of what ops answer."""

from __future__ import annotations

from typing import Any

import torch


def same(found: Any, wanted: Any) -> bool:
    """Bit for bit, shape and type: a tensor, or a tuple of them."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        return all(map(same, found, wanted))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[found.element_size()]
    both = [x.clone(memory_format=torch.contiguous_format).view(integer) for x in (found, wanted)]
    return bool(torch.equal(*both))
