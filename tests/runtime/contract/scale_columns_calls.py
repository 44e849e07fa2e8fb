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


def atoms() -> dict[str, Any]:
    out = torch.zeros(2, 256, 12, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    powers = torch.randint(-20, 20, (2, 130, 9), generator=torch.Generator().manual_seed(0)).float().exp2()
    given = {"scales": powers, "layout": "128x4", "block": 32, "out": out}
    return given | {"rows": 130, "k": 288}  # without which 129 rows or 10 columns would be right, too


CONTRACT = FamilyCalls(
    "scale_columns",
    {"scale_columns": (grouped, packed, atoms)},
    kernels="scale_columns_host",
    free=("groups",),
    measured=(
        Problem(37, 9),
        Problem(37, 9, 2, layout="packed"),
        Problem(130, 9, layout="128x4"),
        Problem(3, 9, 2, "128x4", rows=300),
        Problem(130, 9, layout="128x4", block=32, words=True),
    ),
)
