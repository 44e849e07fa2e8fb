"""Complete calls of the MQA ops, on kernels of the host."""

from __future__ import annotations

from mqa_operands import compressed, of_lengths, of_tokens, paged, paged_fp4, ragged, ragged_fp4, variable

HOST = "mqa_host"
FREE = ("kv_cache", "block_table", "schedule", "lengths")
CALLS = {
    "mqa_logits": (ragged, compressed, ragged_fp4),
    "paged_mqa_logits": (paged, variable, paged_fp4),
    "paged_mqa_schedule": (of_lengths, of_tokens),
}
