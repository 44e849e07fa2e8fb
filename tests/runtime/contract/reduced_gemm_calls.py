"""Complete calls of `reduced_gemm`, on a kernel of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.reduced_gemm.problem import Problem


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def everything() -> dict[str, Any]:
    return {
        "a": matrix(5, 16, 32), "b": matrix(5, 24, 32, seed=1).mT, "out": torch.zeros(16, 24),
        "out_dtype": torch.float32, "c": matrix(16, 24, seed=2).float(), "alpha": 2.0, "beta": -0.5,
    }  # fmt: skip


CONTRACT = FamilyCalls(
    "reduced_gemm",
    {"reduced_gemm": (everything,)},
    kernels="all_hosts",
    measured=(Problem(16, 24, 32, 5, d="f32", c=True),),
)
