"""Calls of DeepGEMM's functions on operands of tilewright's ops."""

from __future__ import annotations

from typing import Any

from tilewright.families.grouped_gemm.measuring import Operands
from tilewright.families.grouped_gemm.problem import BLOCK

MORE_ROWS = 1.2  # expected rows by actual ones, as DeepGEMM's tests have it


def with_whole_blocks(operands: Operands) -> Operands:
    """The same operands with sizes of groups along k that DeepGEMM accepts: multiples of 128."""
    ends = (operands.group_k.cumsum(0) / BLOCK).round() * BLOCK
    changed: Operands = operands.changed(group_k=ends.diff(prepend=ends.new_zeros(1)).int())
    return changed


def call_deep_gemm(module: Any, x: Operands, sizes: list[int]) -> None:
    """The same product by DeepGEMM's function, which reads each group's k (`sizes`) on the host."""
    problem, scaled = x.problem, x.scale_a is not None
    a: Any = (x.a, x.scale_a)
    b: Any = (x.b.mT, x.scale_b.mT if scaled else None)
    sides = (a, b) if scaled else (a[0], b[0])
    if problem.grouping == "none":
        operands = [tuple(part[0] for part in side) for side in (a, b)]
        more = {} if x.c is None else {"c": x.out[0], "recipe": (1, 1, 128)}
        module.fp8_gemm_nt(*operands, x.out[0], **more)
    elif problem.grouping == "row_index":
        call = module.m_grouped_fp8_gemm_nt_contiguous if scaled else module.m_grouped_bf16_gemm_nt_contiguous
        call(*sides, x.out, x.group_of_row)
    elif problem.grouping == "rows_valid":
        call = module.m_grouped_fp8_gemm_nt_masked if scaled else module.m_grouped_bf16_gemm_nt_masked
        call(*sides, x.out, x.rows_valid, int(problem.expected_m * MORE_ROWS))
    elif not scaled:
        module.k_grouped_bf16_gemm_tn_contiguous(x.a.mT, x.b, x.out, sizes, x.group_k, x.out)
    else:
        flat = [(data.reshape(-1), scales) for data, scales in (a, b)]
        module.k_grouped_fp8_gemm_nt_contiguous(*flat, x.out, sizes, x.group_k, x.out)
