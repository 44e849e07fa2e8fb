"""Block-scaled formats as tensors: what the ops that quantise and those that multiply have in common."""

from __future__ import annotations

import torch

from tilewright.types import TYPES

MXFP8_FORMATS = {torch.float8_e4m3fn: "mxfp8", torch.float8_e5m2: "mxfp8_e5m2"}


def dtype_of(name: str) -> torch.dtype:
    """The type of tensors of elements of a type of `types.TYPES`."""
    found: torch.dtype = getattr(torch, TYPES[name].torch)
    return found


def scale_dtype(name: str) -> torch.dtype:
    """The type of the scale factors of NVFP4 or an MX format."""
    return dtype_of(TYPES[name].scale)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of one-byte elements as uint8, which torch copies and fills whatever they mean; others are
    themselves."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
