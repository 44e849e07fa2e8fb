"""Checks of a product's arguments beside a packed weight that is one object."""

from __future__ import annotations

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.mixed_gemm.problem import SILU_MUL
from tilewright.weights import PackedWeight


def is_fp8(a: torch.Tensor, weight: PackedWeight) -> bool:
    """Whether the activations are FP8. Raises an error unless their type and their k go with the weight."""
    fp8: bool = a.dtype == torch.float8_e4m3fn
    if weight.dtype is not None and a.dtype != weight.dtype and not fp8:
        again = a.dtype in (torch.bfloat16, torch.float16)
        raise ArgumentTypeError(
            "a",
            f"{a.dtype}, expected {weight.dtype}: the type that the weight was packed for",
            hint=f"pack_weight(weight, {a.dtype}) packs the weight for such activations"
            if again
            else "float8_e4m3fn goes with int4 and mxfp4 weights",
        )
    if a.ndim >= 2 and a.shape[-1] != weight.k:
        raise ArgumentError("a", f"{a.shape[-1]} columns, expected {weight.k}, the weight's k")
    return fp8


def check_activation(weight: PackedWeight, activation: object) -> None:
    """Raises ArgumentError unless a gated weight, and no other, goes with silu_mul."""
    if weight.gated and activation != SILU_MUL:
        raise ArgumentError(
            "activation",
            f"{activation}, expected {SILU_MUL}: the weight was packed with gated=True",
            hint="pack the weight without gated for other activations",
        )
    if activation == SILU_MUL and not weight.gated:
        raise ArgumentError(
            "activation",
            f"{SILU_MUL} needs a gated weight",
            hint="pack the merged weight of gate and up with pack_weight(..., gated=True)",
        )


def refuse_gated(weight: PackedWeight, what: str) -> None:
    """Raises ArgumentError for a gated weight, which `what` cannot be multiplied by."""
    if weight.gated:
        message = f"it is gated; {what} expect a weight that is not gated"
        raise ArgumentError("weight", message, hint="pack the weight without gated")


def check_result(
    weight: PackedWeight, out: torch.Tensor | None, out_dtype: torch.dtype | None = None
) -> None:
    """Raises ArgumentTypeError unless the result has the type of the weight's scales: kernels with FP8
    activations read scales as numbers of D's type."""
    dtypes = {"out": out.dtype if isinstance(out, torch.Tensor) else None, "out_dtype": out_dtype}
    for name, dtype in dtypes.items():
        if weight.dtype is not None and isinstance(dtype, torch.dtype) and dtype != weight.dtype:
            raise ArgumentTypeError(
                name, f"{dtype}, expected {weight.dtype}: the type of the weight's scales"
            )


def refuse_fp8_arguments(a: torch.Tensor, a_scale: torch.Tensor | None, fast_accum: bool) -> None:
    """Raises ArgumentError for what goes with FP8 activations alone, beside others."""
    if fast_accum:
        raise ArgumentError("fast_accum", f"expected False with {a.dtype}: FP8 sums alone lose bits")
    if a_scale is not None:
        raise ArgumentError("a_scale", f"expected None with {a.dtype}; it scales rows of float8_e4m3fn")
