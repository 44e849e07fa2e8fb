"""Complete calls of `scale_columns`, on a kernel of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.scale_columns.problem import Problem


def scales(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 0.5


def grouped() -> dict[str, Any]:
    ends = torch.tensor([3, 37], dtype=torch.int32)
    given = {"scales": scales(37, 9), "groups": ends, "grouping": "row_ends", "alignment": 16}
    return given | {"out": torch.zeros(9, 40)}


def packed() -> dict[str, Any]:
    out = torch.zeros(2, 3, 40, dtype=torch.int32)
    return {"scales": scales(2, 37, 9), "layout": "packed", "out": out}


CONTRACT = FamilyCalls(
    "scale_columns",
    {"scale_columns": (grouped, packed)},
    kernels="scale_columns_host",
    free=("groups",),
    measured=(Problem(37, 9), Problem(37, 9, 2, layout="packed")),
)
