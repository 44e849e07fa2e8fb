"""Complete calls of `packed_fp8_grouped_gemm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.mixed_fp8_grouped_gemm import measuring
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of


def call(problem: Problem) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    x = measuring.make(problem, generator)
    names = (
        "a", "weight", "scale", "n", "weight_format", "row_alignment", "bias", "a_scale", "out_dtype",
        "fast_accum", "largest_scale",
    )  # fmt: skip
    groups = ("group_of_row", "group_ends", "rows_valid")
    given = {name: getattr(x, name) for name in (*names, *groups) if getattr(x, name, None) is not None}
    factors = 0.5 + torch.rand(problem.groups, generator=generator)
    out = torch.zeros((*x.a.shape[:-1], problem.n), dtype=dtype_of(problem.d))
    return given | {"group_factors": factors, "alpha": 0.5, "out": out}


def ends() -> dict[str, Any]:
    return call(Problem(21, 72, 160, 3, row_alignment=2, bias=True, a_scale=True))


def row_index() -> dict[str, Any]:
    kind = {"d": "f16", "weight_format": "int4_zp_g128"}
    return call(Problem(17, 16, 96, 4, grouping="row_index", bias=True, a_scale=True, **kind))


def rows_valid() -> dict[str, Any]:
    kind = {"grouping": "rows_valid", "weight_format": "mxfp4"}
    return call(Problem(6, 8, 64, 3, bias=True, a_scale=True, expected_m=4, **kind))


def fast() -> dict[str, Any]:
    kind = {"weight_format": "mxfp4", "fast_accum": True}
    return call(Problem(21, 72, 160, 3, bias=True, a_scale=True, **kind))


CONTRACT = FamilyCalls(
    "mixed_fp8_grouped_gemm",
    {"packed_fp8_grouped_gemm": (ends, row_index, rows_valid, fast)},
    kernels="fp8_experts_host",
    measured=(
        Problem(21, 72, 160, 3, a_scale=True),
        Problem(6, 8, 64, 3, grouping="rows_valid", weight_format="mxfp4", a_scale=True),
        Problem(21, 72, 160, 3, grouping="row_index", bias=True),
        Problem(21, 72, 160, 3, weight_format="mxfp4", a_scale=True, fast_accum=True),
    ),
)
