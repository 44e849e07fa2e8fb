"""Complete calls of the scaled and grouped products, on kernels of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.problem import Problem

M, N, K, GROUPS = 36, 160, 208, 3


def call(**fields: Any) -> Callable[[], dict[str, Any]]:
    def call() -> dict[str, Any]:
        problem = Problem(**{"m": M, "n": N, "k": K, "c": True, "row_alignment": 4, **fields})
        made = measuring.make(problem, torch.Generator().manual_seed(0))
        names = ("a", "b", "scale_a", "scale_b", "scale_block", "c")
        given = {name: getattr(made, name) for name in names}
        return given | made.layout | {"out": torch.zeros_like(made.out), "out_dtype": made.out.dtype}

    return call


def aligned(**fields: Any) -> Callable[[], dict[str, Any]]:
    def aligned() -> dict[str, Any]:
        return call(groups=GROUPS, **fields)() | {"row_alignment": 4}

    return aligned


def parts_of(scales: str) -> Callable[[], dict[str, Any]]:
    def parts() -> dict[str, Any]:
        given = call(groups=GROUPS, k=384, grouping="k_sizes", scales=scales, d="f32")()
        del given["out_dtype"]
        return given

    return parts


def rows() -> dict[str, Any]:
    given = call(groups=GROUPS, m=40, k=384, grouping="k_sizes", d="f32", layout="nt", **BF16)()
    del given["out_dtype"]
    return given


BF16 = {"a": "bf16", "b": "bf16", "scales": "none"}
CONTRACT = FamilyCalls(
    "grouped_gemm",
    {
        "scaled_gemm": (call(groups=GROUPS), call(scales="1x128", d="f32")),
        "grouped_gemm_contiguous": (aligned(grouping="row_index"), aligned(grouping="ends", scales="1x128")),
        "grouped_gemm_k": (parts_of("1x128"), rows),
        "grouped_gemm_masked": (
            call(groups=GROUPS, grouping="rows_valid", expected_m=9),
            call(groups=GROUPS, grouping="rows_valid", **BF16),
            call(groups=GROUPS, grouping="rows_valid", layout="tt", **BF16),
        ),
    },
    kernels="grouped",
    measured=(
        Problem(36, 160, 208, GROUPS, c=True),
        Problem(36, 160, 208, GROUPS, grouping="rows_valid", scales="1x128"),
        Problem(36, 160, 208, GROUPS, grouping="ends"),  # fewer rows than a group's multiple
    ),
)
