"""Products of FP4, and of FP8 and FP4, keep the contract, by kernels of the host."""

from __future__ import annotations

from typing import Any

from grouped_gemm_calls import GROUPS, aligned, call, parts_of

from tilewright.contract.suite import *  # noqa: F403
from tilewright.contract.suite import FamilyCalls
from tilewright.families.grouped_gemm.problem import FP4_SCALES, Problem

K = 224  # seven blocks of 32
FP4: dict[str, Any] = {"a": "mxfp4", "b": "mxfp4", "scales": FP4_SCALES, "k": K}
CONTRACT = (
    FamilyCalls(
        "grouped_gemm",
        {
            "scaled_gemm": (
                call(groups=GROUPS, **FP4 | {"d": "f32"}),
                call(groups=GROUPS, **FP4 | {"a": "e4m3"}),
            ),
            "grouped_gemm_contiguous": (
                aligned(grouping="row_index", **FP4),
                aligned(grouping="ends", **FP4 | {"a": "e4m3"}),
            ),
            "grouped_gemm_k": (parts_of(FP4_SCALES),),  # of FP8
            "grouped_gemm_masked": (
                call(groups=GROUPS, grouping="rows_valid", expected_m=9, **FP4),
                call(groups=GROUPS, grouping="rows_valid", **FP4 | {"b": "e4m3"}),
            ),
        },
        kernels="grouped_words",
        measured=(
            Problem(36, 160, K, GROUPS, c=True, **{name: FP4[name] for name in ("a", "b", "scales")}),
            Problem(36, 160, K, GROUPS, grouping="rows_valid", b="mxfp4", scales=FP4_SCALES),
            Problem(36, 160, K, GROUPS, grouping="ends", a="mxfp4", scales=FP4_SCALES),
        ),
    ),
)
