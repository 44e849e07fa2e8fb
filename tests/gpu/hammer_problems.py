"""What the hammer runs of a kernel, by its family."""

from __future__ import annotations

from hammer_case import Case, Cases, legal
from hammer_others import (
    logits_cases,
    prenorm_cases,
    quantize_cases,
    scale_columns_cases,
    transpose_cases,
)
from hammer_packed import mixed_cases, mixed_fp8_cases
from hammer_products import (
    blockscaled_cases,
    experts_cases,
    fp8_experts_cases,
    gemm_cases,
    grouped_cases,
    reduced_cases,
)

from tilewright.declarations.table import KernelRecord

CASES: dict[str, Cases] = {
    "blockscaled_gemm": blockscaled_cases,
    "gemm": gemm_cases,
    "grouped_gemm": grouped_cases,
    "hc_prenorm": prenorm_cases,
    "mixed_fp8_gemm": mixed_fp8_cases,
    "mixed_fp8_grouped_gemm": fp8_experts_cases,
    "mixed_gemm": mixed_cases,
    "mixed_grouped_gemm": experts_cases,
    "mqa_logits": logits_cases,
    "quantize": quantize_cases,
    "reduced_gemm": reduced_cases,
    "scale_columns": scale_columns_cases,
    "transpose_fp8": transpose_cases,
}


def cases(family: str, record: KernelRecord) -> list[Case]:
    """The calls of a kernel that the hammer repeats: those that the family's rules allow."""
    return list(legal(family, record, CASES[family](record)))
