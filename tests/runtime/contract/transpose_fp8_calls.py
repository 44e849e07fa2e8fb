"""Complete calls of `transpose_fp8`, on a kernel of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.ops.transpose_fp8.problem import Problem

HOST = "transpose_fp8_host"
FREE = ("group_rows",)


def fp8(*shape: int, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    x = torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return x.view(dtype)


def batched() -> dict[str, Any]:
    return {"x": fp8(2, 37, 24), "out": fp8(2, 24, 37)}


def grouped() -> dict[str, Any]:
    return {
        "x": fp8(384, 24),
        "group_rows": torch.tensor([128, 0, 256], dtype=torch.int32),
        "out": fp8(24, 384),
    }


CALLS = {"transpose_fp8": (batched, grouped)}
MEASURED = (Problem(37, 24), Problem(37, 24, 2, type="e5m2"))
