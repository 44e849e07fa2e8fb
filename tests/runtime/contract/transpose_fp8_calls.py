"""Complete calls of `transpose_fp8`, on a kernel of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.transpose_fp8.problem import Problem


def fp8(*shape: int, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def matrix() -> dict[str, Any]:
    return {"x": fp8(37, 24), "out": fp8(24, 37)}


def batched() -> dict[str, Any]:
    given = fp8(2, 37, 24, dtype=torch.float8_e5m2), fp8(2, 24, 37, dtype=torch.float8_e5m2)
    return dict(zip(("x", "out"), given, strict=True))


def grouped() -> dict[str, Any]:
    sizes = torch.tensor([128, 0, 256], dtype=torch.int32)
    return {"x": fp8(384, 24), "group_rows": sizes, "out": fp8(24, 384)}


CONTRACT = FamilyCalls(
    "transpose_fp8",
    {"transpose_fp8": (matrix, batched, grouped)},
    kernels="transpose_fp8_host",
    free=("group_rows",),
    measured=(Problem(37, 24), Problem(37, 24, 2, type="e5m2")),
)
