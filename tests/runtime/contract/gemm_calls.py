"""Complete calls of `gemm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.gemm.problem import Problem


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def everything() -> dict[str, Any]:
    return {
        "a": matrix(16, 32), "b": matrix(24, 32, seed=1).mT, "out": matrix(16, 24, seed=2),
        "c": matrix(16, 24, seed=3), "alpha": 2.0, "beta": -0.5, "scale_a": torch.tensor([0.5]),
        "scale_b": torch.tensor([3.0]), "bias": matrix(24, seed=4), "activation": "relu",
    }  # fmt: skip


def batch() -> dict[str, Any]:
    return {"a": matrix(3, 16, 32), "b": matrix(3, 24, 32, seed=1).mT, "out": matrix(3, 16, 24, seed=2)}


def integers() -> dict[str, Any]:
    numbers = torch.arange(-256, 256, dtype=torch.int8)
    out = torch.zeros(16, 16, dtype=torch.int32)
    return {"a": numbers.view(16, 32), "b": numbers.view(16, 32).mT, "out": out, "alpha": 2.0}


def padded() -> dict[str, Any]:
    """Operands whose extents TMA does not take."""
    return {"a": matrix(5, 12), "b": matrix(12, 7, seed=1), "out": matrix(5, 7, seed=2)}


def fp8() -> dict[str, Any]:
    """A result that is scaled and searched, with a C and a bias of types of their own."""
    a, b = matrix(16, 32).to(torch.float8_e4m3fn), matrix(24, 32, seed=1).to(torch.float8_e4m3fn)
    return {
        "a": a, "b": b.mT, "out": torch.zeros(16, 24).to(torch.float8_e4m3fn),
        "c": matrix(16, 24, seed=3).float(), "beta": 0.5, "bias": matrix(24, seed=4).float(),
        "scale_result": torch.tensor([2.5]), "amax": torch.zeros(1), "out_dtype": torch.float8_e4m3fn,
    }  # fmt: skip


def gated() -> dict[str, Any]:
    """The merged weight of a gate and an up projection, whose D has half as many columns."""
    return {
        "a": matrix(16, 32), "b": matrix(48, 32, seed=1).mT, "out": matrix(16, 24, seed=2), "alpha": 0.5,
        "scale_a": torch.tensor([0.5]), "scale_b": torch.tensor([3.0]), "bias": matrix(48, seed=4),
        "activation": "silu_mul",
    }  # fmt: skip


CONTRACT = FamilyCalls(
    "gemm",
    {"gemm": (everything, batch, integers, padded, fp8, gated)},
    kernels="host",
    measured=(
        Problem(16, 24, 32, c=True),
        Problem(16, 48, 32, bias=True, activation="silu_mul"),
        Problem(16, 16, 32, a="s8", b="s8", d="s32"),
    ),
)
