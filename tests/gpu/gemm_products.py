"""Calls of `gemm` on a GPU, and the comparison of their results."""

from __future__ import annotations

from typing import Any

import gemm_reference as reference
import pytest
import torch

import tilewright
from tilewright.errors import NotBuiltError

BF16, TF32 = ("bf16", "bf16"), ("tf32", "f32")
CONFIG = {"fast_accum": False, "activation": "none"}


def column_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT


def gemm(*arguments: Any, **options: Any) -> torch.Tensor:
    """The op; a test whose kernel is not built is skipped."""
    try:
        return tilewright.gemm(*arguments, **options)
    except NotBuiltError as error:
        pytest.skip(error.message)


def compare(
    found: torch.Tensor, wanted: torch.Tensor, types: tuple[str, str], k: int, what: str = ""
) -> None:
    """`types` are those of A and of D."""
    reference.compare(found, wanted, {**CONFIG, "a": types[0], "d": types[1]}, k, what)
