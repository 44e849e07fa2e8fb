"""Complete calls of `hc_prenorm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.hc_prenorm.problem import Problem


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def everything() -> dict[str, Any]:
    return {
        "a": matrix(12, 136).bfloat16(), "b": matrix(16, 136, seed=1), "normalize": True, "eps": 0.25,
        "out": matrix(12, 16, seed=2), "squares": matrix(12, seed=3),
    }  # fmt: skip


def splits() -> dict[str, Any]:
    given = everything() | {"normalize": False, "splits": 2}
    return given | {"out": matrix(2, 12, 16, seed=2), "squares": matrix(2, 12, seed=3)}


CONTRACT = FamilyCalls(
    "hc_prenorm",
    {"hc_prenorm": (everything, splits)},
    kernels="prenorm",
    measured=(Problem(12, 16, 136, normalize=True), Problem(12, 16, 136, splits=2)),
)
