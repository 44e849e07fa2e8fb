"""Products of groups by a packed stack of experts that is one object, with its format and factors."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.calls import guards
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.mixed_fp8_grouped_gemm.op import packed_fp8_grouped_gemm
from tilewright.families.mixed_gemm.matching import (
    check_activation,
    check_result,
    is_fp8,
    refuse_fp8_arguments,
    refuse_gated,
)
from tilewright.families.mixed_gemm.problem import format_name
from tilewright.families.mixed_grouped_gemm.op import packed_grouped_gemm
from tilewright.weights import PackedWeight
from tilewright.weights.tensors import check_kind


def mixed_grouped_gemm(
    a: torch.Tensor,
    weight: PackedWeight,
    *,
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    rows_valid: torch.Tensor | None = None,
    row_alignment: int = 1,
    expected_m: int = 0,
    out: torch.Tensor | None = None,
    a_scale: torch.Tensor | None = None,
    alpha: float = 1.0,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes activation(alpha * (a @ W[g].T) + bias[g]) for a stack W of experts of
    `tilewright.pack_weight`, where g is the expert of each row of a.

    It calls `tilewright.packed_grouped_gemm`, or `tilewright.packed_fp8_grouped_gemm` for FP8 activations,
    with the weight's tensors and format. torch.compile sees that op.
    Global scales that differ between experts are factors of the groups.

    Args:
        a: [m, k], or with `rows_valid` [experts, m, k]; of the weight's dtype, where that is not None, or
            float8_e4m3fn.
        weight: a stack of experts.
        group_of_row, group_ends, rows_valid: int32 on the device, one of them: as in `packed_grouped_gemm`.
        a_scale: float32 [m] or [experts, m], a factor of each row of an `a` of FP8; 1 if absent.
        activation: as in `packed_grouped_gemm`; silu_mul, with n/2 columns of D, goes with a gated stack
            (`pack_weight(..., gated=True)`) and an `a` of 16 bits, and a gated stack with nothing else.
        fast_accum: for FP8 activations by MXFP4, lets sums of all of k stay in the tensor core, which keeps
            about 14 bits of them. Elements are relative to the largest scale of all experts.
        row_alignment, expected_m, out, alpha, bias, tactic: as in `packed_grouped_gemm`. The result for FP8
            activations has the weight's dtype, or bfloat16 where that is None, unless `out` has another type.

    Raises:
        ArgumentError: one weight that is no stack, or an `a` of another type or another k; and what
            `packed_grouped_gemm` raises.
    """
    check_kind("a", a, torch.Tensor)
    check_kind("weight", weight, PackedWeight)
    if weight.experts is None:
        raise ArgumentError(
            "weight", "one weight, expected a stack of experts", hint="mixed_gemm multiplies by one weight"
        )
    check_activation(weight, activation)
    fp8 = is_fp8(a, weight)
    alpha = guards.factor("alpha", alpha)
    guards.check_flag("fast_accum", fast_accum)
    if not isinstance(weight.global_scale, tuple):
        alpha *= weight.global_scale
    shared: dict[str, Any] = {
        "n": weight.n, "weight_format": format_name(weight.format, weight.group),
        "group_of_row": group_of_row, "group_ends": group_ends, "rows_valid": rows_valid,
        "row_alignment": row_alignment, "expected_m": expected_m, "out": out, "alpha": alpha,
        "group_factors": weight.group_factors, "bias": bias, "tactic": tactic,
    }  # fmt: skip
    if fp8:
        refuse_gated(weight, "FP8 activations")
        check_result(weight, out)
        out_dtype = (weight.dtype or torch.bfloat16) if out is None else None
        return packed_fp8_grouped_gemm(
            a, weight.weight, weight.scale, out_dtype=out_dtype, a_scale=a_scale, fast_accum=fast_accum,
            largest_scale=weight.largest_scale or 1.0, **shared,
        )  # fmt: skip
    refuse_fp8_arguments(a, a_scale, fast_accum)
    return packed_grouped_gemm(a, weight.weight, weight.scale, activation=activation, **shared)
