"""Products with packed UE8M0 scale factors of 32 and 128 of k keep the contract, by kernels of the host."""

from __future__ import annotations

from grouped_gemm_calls import GROUPS, aligned, call, parts_of

from tilewright.contract.suite import *  # noqa: F403
from tilewright.contract.suite import FamilyCalls
from tilewright.families.grouped_gemm.problem import PACKED_SCALES, Problem

OF_32, OF_128 = PACKED_SCALES
CONTRACT = (
    FamilyCalls(
        "grouped_gemm",
        {
            "scaled_gemm": (call(groups=GROUPS, scales=OF_128, d="f32"),),
            "grouped_gemm_contiguous": (
                aligned(grouping="ends", scales=OF_32),
                aligned(grouping="row_index", scales=OF_32),
            ),
            "grouped_gemm_k": (parts_of(OF_32),),
            "grouped_gemm_masked": (call(groups=GROUPS, grouping="rows_valid", expected_m=9, scales=OF_128),),
        },
        kernels="grouped_words",
        measured=(
            Problem(36, 160, 208, GROUPS, c=True, scales=OF_32),
            Problem(36, 160, 656, GROUPS, grouping="rows_valid", scales=OF_128),
            Problem(36, 160, 208, GROUPS, grouping="ends", scales=OF_32),
            Problem(36, 160, 384, GROUPS, grouping="k_sizes", scales=OF_32, d="f32"),
        ),
    ),
)
