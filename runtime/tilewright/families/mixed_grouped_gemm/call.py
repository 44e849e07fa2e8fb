"""Products of groups by a packed stack of experts that is one object, with its format and factors."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.mixed_fp8_grouped_gemm.op import packed_fp8_grouped_gemm
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
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """alpha * (a @ W[g].T) + bias[g] for a stack W of experts of `tilewright.pack_weight`, where g is the
    expert of each row of a.

    It calls `tilewright.packed_grouped_gemm`, or `tilewright.packed_fp8_grouped_gemm` for FP8 activations,
    with the weight's tensors and format. torch.compile sees that op.
    Global scales that differ between experts become a tensor in each call: a caller who keeps one passes it
    to `packed_grouped_gemm` as `group_factors`.

    Args:
        a: [m, k], or with `rows_valid` [experts, m, k]; of the weight's dtype, where that is not None, or
            float8_e4m3fn.
        weight: a stack of experts.
        group_of_row, group_ends, rows_valid: int32 on the device, one of them: as in `packed_grouped_gemm`.
        a_scale: float32 [m] or [experts, m], a factor of each row of an `a` of FP8; 1 if absent.
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
    is_fp8 = a.dtype == torch.float8_e4m3fn
    if weight.dtype is not None and a.dtype != weight.dtype and not is_fp8:
        raise ArgumentTypeError(
            "a",
            f"{a.dtype}, expected {weight.dtype}: the type that the weight was packed for",
            hint="float8_e4m3fn goes with int4 and mxfp4 weights",
        )
    if a.ndim >= 2 and a.shape[-1] != weight.k:
        raise ArgumentError("a", f"{a.shape[-1]} columns, expected {weight.k}, the weight's k")
    factors = None
    if isinstance(weight.global_scale, tuple):
        factors = torch.tensor(weight.global_scale, dtype=torch.float32, device=a.device)
    else:
        alpha *= weight.global_scale
    shared: dict[str, Any] = {
        "n": weight.n, "weight_format": format_name(weight.format, weight.group),
        "group_of_row": group_of_row, "group_ends": group_ends, "rows_valid": rows_valid,
        "row_alignment": row_alignment, "expected_m": expected_m, "out": out, "alpha": alpha,
        "group_factors": factors, "bias": bias, "tactic": tactic,
    }  # fmt: skip
    if is_fp8:
        if out is not None and weight.dtype is not None and out.dtype != weight.dtype:
            raise ArgumentTypeError(
                "out", f"{out.dtype}, expected {weight.dtype}: the type of the weight's scales"
            )
        out_dtype = (weight.dtype or torch.bfloat16) if out is None else None
        return packed_fp8_grouped_gemm(
            a, weight.weight, weight.scale, out_dtype=out_dtype, a_scale=a_scale, **shared
        )
    if a_scale is not None:
        raise ArgumentError("a_scale", f"expected None with {a.dtype}; it scales rows of float8_e4m3fn")
    return packed_grouped_gemm(a, weight.weight, weight.scale, **shared)
