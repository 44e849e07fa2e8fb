"""Complete calls of the MQA ops, on kernels of the host."""

from __future__ import annotations

from mqa_operands import compressed, of_lengths, of_tokens, paged, paged_fp4, ragged, ragged_fp4, variable

from tilewright.contract.cases import FamilyCalls
from tilewright.families.mqa_logits.problem import Problem

CONTRACT = FamilyCalls(
    "mqa_logits",
    {
        "mqa_logits": (ragged, compressed, ragged_fp4),
        "paged_mqa_logits": (paged, variable, paged_fp4),
        "paged_mqa_schedule": (of_lengths, of_tokens),
    },
    kernels="mqa_host",
    free=("kv_cache", "block_table", "schedule", "lengths"),
    measured=(
        Problem(queries=6, keys=70, heads=16, head_dim=32),
        Problem(queries=6, keys=70, heads=16, head_dim=64, q="mxfp4"),
        Problem(queries=6, keys=70, heads=16, head_dim=32, form="paged", page=32, next_n=2),
    ),
)
