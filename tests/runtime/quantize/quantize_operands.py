"""Operands of `quantize`, its functions by format, and bytes of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import tilewright
from tilewright.contract.tensors import same

ODD = [(1, 16), (120, 64), (129, 80), (200, 256), (37, 208)]
BYTE_FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2")
FP8 = [
    ((1, 128), "float32", "m_major"),
    ((1, 128), "float32", "row_major"),
    ((1, 128), "ue8m0", "packed"),
    ((128, 1), "float32", "row_major"),
    ((128, 128), "float32", "row_major"),
    ((128, 128), "ue8m0", "packed"),
]
GS = 37.25
POISON = 0x5A


def data_of(shape: tuple[int, ...], dtype: Any = torch.bfloat16, seed: int = 0) -> Any:
    """Random numbers of several magnitudes, with what is special among them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * 4.0 ** torch.randint(
        -6, 4, (*shape[:-1], 1), generator=generator
    )
    flat = x.view(-1)
    for at, value in enumerate((0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-130)):
        if flat.numel() > 640:
            flat[(at * 7919 + 13) % flat.numel()] = value
    if flat.numel() > 640:
        x.view(-1)[320:352] = 0.0
    return x.clamp(-448, 448).to(dtype) if dtype == torch.float8_e4m3fn else x.to(dtype)


def as_bytes(tensor: Any) -> Any:
    return tensor.contiguous().view(torch.uint8) if tensor.element_size() == 1 else tensor


def quantizer(name: str) -> Callable[..., Any]:
    if name == "mxfp8_e5m2":
        return lambda x, **options: tilewright.quantize_mxfp8(x, dtype=torch.float8_e5m2, **options)
    return getattr(tilewright, f"quantize_{name}")


def dequantizer(name: str) -> Callable[..., Any]:
    return getattr(tilewright, f"dequantize_{name.removesuffix('_e5m2')}")


def as_type(data: Any, name: str) -> Any:
    return data.view({"mxfp8": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}.get(name, torch.uint8))


def equal_tensors(actual: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether both are as many tensors, each the same as its counterpart."""
    return all(same(*pair) for pair in zip(actual, expected, strict=True))
