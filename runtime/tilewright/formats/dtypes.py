"""Block-scaled formats as tensors: what the ops that quantise and those that multiply have in common."""

from __future__ import annotations

import torch

from tilewright.formats.types import TYPES

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, type.torch) for name, type in TYPES.items()}
"""The dtype of tensors that hold elements of a type."""


def dtype_of(name: str) -> torch.dtype:
    """The dtype of tensors that hold elements of a type of `types.TYPES`."""
    return DTYPES[name]


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of one-byte elements as uint8, which torch copies and fills whatever they mean; others are
    themselves."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
