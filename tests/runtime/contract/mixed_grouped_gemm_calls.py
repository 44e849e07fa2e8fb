"""Complete calls of `packed_grouped_gemm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of


def call(problem: Problem) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    x = measuring.make(problem, generator)
    names = ("a", "weight", "scale", "n", "weight_format", "row_alignment", "bias", "activation")
    groups = ("group_of_row", "group_ends", "rows_valid")
    given = {name: getattr(x, name) for name in (*names, *groups) if getattr(x, name, None) is not None}
    factors = 0.5 + torch.rand(problem.groups, generator=generator)
    out = torch.zeros((*x.a.shape[:-1], problem.d_columns), dtype=dtype_of(problem.d))
    return given | {"group_factors": factors, "alpha": 0.5, "out": out}


def ends() -> dict[str, Any]:
    return call(Problem(21, 72, 160, 3, row_alignment=2, bias=True))


def row_index() -> dict[str, Any]:
    kind = {"a": "f16", "d": "f16", "weight_format": "int4_zp_g128"}
    return call(Problem(17, 16, 96, 4, grouping="row_index", bias=True, **kind))


def rows_valid() -> dict[str, Any]:
    return call(Problem(6, 8, 64, 3, grouping="rows_valid", weight_format="nvfp4", bias=True, expected_m=4))


def gated_ends() -> dict[str, Any]:
    return call(Problem(21, 80, 160, 3, row_alignment=2, bias=True, activation="silu_mul"))


def gated_row_index() -> dict[str, Any]:
    kind = {"a": "f16", "d": "f16", "weight_format": "int4_zp_g128"}
    return call(Problem(17, 16, 96, 4, grouping="row_index", bias=True, activation="silu_mul", **kind))


def gated_rows_valid() -> dict[str, Any]:
    kind = {"grouping": "rows_valid", "weight_format": "nvfp4"}
    return call(Problem(6, 32, 64, 3, expected_m=4, activation="silu_mul", **kind))


PLAIN = (ends, row_index, rows_valid)
GATED = (gated_ends, gated_row_index, gated_rows_valid)
CONTRACT = FamilyCalls(
    "mixed_grouped_gemm",
    {"packed_grouped_gemm": (*PLAIN, *GATED)},
    kernels="experts_host",
    measured=(
        Problem(21, 72, 160, 3),
        Problem(6, 8, 64, 3, grouping="rows_valid", weight_format="mxfp4"),
        Problem(21, 72, 160, 3, grouping="row_index", bias=True),
        Problem(21, 72, 160, 3, weight_format="e4m3_g128"),
        Problem(21, 80, 160, 3, bias=True, activation="silu_mul"),
    ),
)
