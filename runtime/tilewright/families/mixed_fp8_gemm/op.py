"""The public op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tilewright.calls.guards import factor
from tilewright.calls.op import Values
from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.mixed_fp8_gemm.family import FAMILY
from tilewright.families.mixed_fp8_gemm.interface import INTERFACE
from tilewright.families.mixed_gemm.op import PackedProduct


def check_sums(values: Values, problem: Any) -> None:
    """Raises ArgumentError unless sums may stay in the tensor core where a call asks for it."""
    if problem.fast_accum and problem.weight_format != "mxfp4":
        raise ArgumentError("fast_accum", f"expected False for {problem.weight_format}: FP32 sums are scaled")
    if recheck := recheck_sums(problem):
        recheck(values["alpha"], values["largest_scale"])


def recheck_sums(problem: Any) -> Callable[..., None] | None:
    """`Op.recheck`: the check of a call's numbers where elements are relative to the largest scale."""
    return _check_largest_scale if problem.fast_accum else None


def _check_largest_scale(alpha: float, scale: float) -> None:
    if not 2.0**-127 <= scale <= 2.0**127 or math.frexp(scale)[0] != 0.5:
        factor("largest_scale", scale)  # of those beyond the range of float32 a warm call says so, too
        raise ArgumentError("largest_scale", f"{scale}, expected a power of two, 2^-127 to 2^127")


class _MixedFp8(PackedProduct):
    interface = INTERFACE
    family = FAMILY
    rules, recheck = staticmethod(check_sums), staticmethod(recheck_sums)


@public(_MixedFp8())
def packed_fp8_gemm(
    a: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    *,
    n: int,
    weight_format: str = "int4_g128",
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    a_scale: torch.Tensor | None = None,
    alpha: float = 1.0,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    largest_scale: float = 2.0**127,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes activation(alpha * a_scale[:, None] * (a @ W.T) + bias) for FP8 activations and a packed
    weight W [n, k] of 4 bits, on the current stream.

    The codes of W become FP8, which holds them exactly, and are multiplied by FP8's tensor cores. Sums of
    each group are multiplied by its scale in FP32 (docs/packed_kernels.md says what is exact).

    Args:
        a: [m, k] float8_e4m3fn, rows contiguous, in a wider tensor too; k a multiple of 32.
        weight: uint8 [ceil(n/64), ceil(k/128) * 4096], contiguous: the packed elements.
        scale: uint8 [ceil(n/64), ceil(k/128) * bytes], contiguous: the packed scales. Those of integers have
            D's type.
        n: rows of W, a multiple of 8.
        weight_format: int4_g32, int4_g64, int4_g128, int4_zp_g32, int4_zp_g64, int4_zp_g128 or mxfp4
            (docs/packed_weights.md says which have kernels). A weight with one scale for each row is packed
            as int4_g128.
        out: [m, n] of D's type, rows contiguous, in a wider tensor too; made if absent.
        out_dtype: D's type where `out` is absent: bfloat16 (default) or float16.
        a_scale: float32 [m], contiguous: a factor of each row of a; 1 if absent. One scale for all of a is a
            factor of alpha.
        alpha: a factor. If it is 0, a and W are not read.
        bias: [n] of D's type, contiguous.
        activation: none, relu, gelu (erf) or silu; applied last.
        fast_accum: lets sums of all of k stay in the tensor core, which keeps about 14 bits of them; mxfp4
            alone.
        largest_scale: with `fast_accum`, the largest scale that is not NaN. Elements whose scale is below
            2^-16 of it lose bits; a scale above it gives infinity or NaN.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m is 0; activation(bias) where k or alpha is 0.

    Raises:
        AlignmentError: rows of a that do not begin at multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
