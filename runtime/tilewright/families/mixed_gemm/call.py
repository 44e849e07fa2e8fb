"""Products by packed weights that are one object, with their format and factors."""

from __future__ import annotations

import torch

from tilewright.calls import guards
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.mixed_fp8_gemm.op import packed_fp8_gemm
from tilewright.families.mixed_gemm.matching import (
    check_activation,
    check_result,
    is_fp8,
    refuse_fp8_arguments,
    refuse_gated,
)
from tilewright.families.mixed_gemm.op import packed_gemm
from tilewright.families.mixed_gemm.problem import format_name
from tilewright.weights import PackedWeight
from tilewright.weights.tensors import check_kind


def mixed_gemm(
    a: torch.Tensor,
    weight: PackedWeight,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    a_scale: torch.Tensor | None = None,
    alpha: float = 1.0,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes activation(alpha * (a @ W.T) + bias) for a weight W [n, k] of `tilewright.pack_weight`.

    It calls `tilewright.packed_gemm`, or `tilewright.packed_fp8_gemm` for FP8 activations, with the weight's
    tensors and format, and with alpha times the weight's global scale. torch.compile sees that op.

    Args:
        a: [m, k]; of the weight's dtype, where that is not None, or float8_e4m3fn.
        weight: one weight; of a stack, `weight.expert(index)`.
        a_scale: float32 [m], a factor of each row of an `a` of FP8; 1 if absent.
        fast_accum: for FP8 activations by MXFP4, lets sums of all of k stay in the tensor core, which keeps
            about 14 bits of them.
        activation: as in `packed_gemm`; silu_mul, with n/2 columns of D, goes with a gated weight
            (`pack_weight(..., gated=True)`) and an `a` of 16 bits, and a gated weight with nothing else.
        out, out_dtype, alpha, bias, tactic: as in `packed_gemm`. The result for FP8 activations
            has the weight's dtype; where that is None, the type of `out`, or `out_dtype` (default bfloat16).

    Raises:
        ArgumentError: a stack of experts, or an `a` of another type or another k; and what `packed_gemm`
            raises.
    """
    check_kind("a", a, torch.Tensor)
    check_kind("weight", weight, PackedWeight)
    if isinstance(weight.global_scale, tuple) or weight.experts is not None:
        raise ArgumentError(
            "weight",
            f"a stack of {weight.experts} experts, expected one weight",
            hint="mixed_grouped_gemm multiplies by a stack; weight.expert(index) is one weight",
        )
    check_activation(weight, activation)
    alpha = guards.factor("alpha", alpha) * weight.global_scale
    guards.check_flag("fast_accum", fast_accum)
    if is_fp8(a, weight):
        refuse_gated(weight, "FP8 activations")
        check_result(weight, out, out_dtype)
        dtype = weight.dtype or torch.bfloat16
        return packed_fp8_gemm(
            a,
            weight.weight,
            weight.scale,
            n=weight.n,
            weight_format=format_name(weight.format, weight.group),
            out=out,
            out_dtype=dtype if out is None and out_dtype is None else out_dtype,
            a_scale=a_scale,
            alpha=alpha,
            bias=bias,
            activation=activation,
            fast_accum=fast_accum,
            largest_scale=weight.largest_scale or 1.0,
            tactic=tactic,
        )
    refuse_fp8_arguments(a, a_scale, fast_accum)
    return packed_gemm(
        a,
        weight.weight,
        weight.scale,
        n=weight.n,
        weight_format=format_name(weight.format, weight.group),
        out=out,
        out_dtype=out_dtype,
        alpha=alpha,
        bias=bias,
        activation=activation,
        tactic=tactic,
    )
