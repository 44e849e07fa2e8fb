"""Complete calls of the block-scaled products of groups, on kernels of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.blockscaled_grouped_gemm import measuring
from tilewright.families.blockscaled_grouped_gemm.problem import Problem

NAMES = (
    "a", "b", "a_descale", "b_descale", "alpha", "group_of_row", "group_ends", "rows_valid", "scale_begins",
    "row_alignment", "zero_padding",
)  # fmt: skip


def call(a: str, b: str = "", **fields: Any) -> Callable[[], dict[str, Any]]:
    def call() -> dict[str, Any]:
        problem = Problem(**{"m": 200, "n": 16, "k": 128, "groups": 3, "a": a, "b": b or a, **fields})
        x = measuring.make(problem, torch.Generator().manual_seed(0))
        given = {name: getattr(x, name) for name in NAMES if getattr(x, name) is not None}
        return given | {"out": torch.zeros_like(x.out), "out_dtype": x.out.dtype}

    return call


CONTRACT = FamilyCalls(
    "blockscaled_grouped_gemm",
    {
        "grouped_mm_nvfp4": (
            call("nvfp4"),
            call("nvfp4", m=140, grouping="rows_valid", expected_m=60, d="f32", zero_padding=True),
            call("nvfp4", m=45, scale_begins=True, row_alignment=1),
            call("nvfp4", grouping="row_index"),
        ),
        "grouped_mm_mxfp4": (call("mxfp4"),),
        "grouped_mm_mxfp8": (call("mxfp8", m=20, grouping="rows_valid", k=64),),
        "grouped_mm_mxfp8_mxfp4": (
            call("mxfp8", "mxfp4"),
            call("mxfp8_e5m2", "mxfp4", m=45, scale_begins=True, row_alignment=1),
        ),
    },
    kernels="blackwell_groups",
    measured=(
        Problem(200, 16, 128, 3),
        Problem(40, 16, 128, 3, grouping="rows_valid", a="mxfp8", b="mxfp4"),
        Problem(200, 16, 128, 3, grouping="row_index", d="f32"),
        Problem(45, 16, 128, 3, scale_begins=True, row_alignment=1),
    ),
)
