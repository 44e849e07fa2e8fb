"""Products by packed weights that are one object, with their format and factors."""

from __future__ import annotations

import torch

from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.mixed_gemm.op import packed_gemm
from tilewright.families.mixed_gemm.problem import format_name
from tilewright.weights import PackedWeight


def mixed_gemm(
    a: torch.Tensor,
    weight: PackedWeight,
    *,
    out: torch.Tensor | None = None,
    alpha: float = 1.0,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """activation(alpha * (a @ W.T) + bias) for a weight W [n, k] of `tilewright.pack_weight`.

    It calls `tilewright.packed_gemm`, which torch.compile sees, with the weight's tensors and format, and
    with alpha times the weight's global scale.

    Args:
        a: [m, k]; of the weight's dtype, where that is not None.
        weight: one weight; of a stack, `weight.expert(index)`.
        out, alpha, bias, activation, tactic: as in `packed_gemm`.

    Raises:
        ArgumentError: a stack of experts, or an `a` of another type or another k; and what `packed_gemm`
            raises.
    """
    if not isinstance(weight, PackedWeight):
        raise ArgumentTypeError("weight", f"expected a PackedWeight, got {type(weight).__name__}")
    if isinstance(weight.global_scale, tuple) or weight.experts is not None:
        raise ArgumentError(
            "weight",
            f"a stack of {weight.experts} experts, expected one weight",
            hint="mixed_grouped_gemm multiplies by a stack; weight.expert(index) is one weight",
        )
    if weight.dtype is not None and a.dtype != weight.dtype:
        raise ArgumentTypeError(
            "a", f"{a.dtype}, expected {weight.dtype}: the type that the weight was packed for"
        )
    if a.ndim == 2 and a.shape[1] != weight.k:
        raise ArgumentError("a", f"{a.shape[1]} columns, expected {weight.k}, the weight's k")
    return packed_gemm(
        a,
        weight.weight,
        weight.scale,
        n=weight.n,
        weight_format=format_name(weight.format, weight.group),
        out=out,
        alpha=alpha * weight.global_scale,
        bias=bias,
        activation=activation,
        tactic=tactic,
    )
