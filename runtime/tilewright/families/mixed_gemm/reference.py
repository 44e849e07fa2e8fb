"""What kernels of `mixed_gemm` decode, in plain torch."""

from __future__ import annotations

import torch

from tilewright import weight_formats, weight_layout
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.formats.dtypes import dtype_of

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def decoded(packed: weight_layout.Packed, problem: Problem) -> torch.Tensor:
    """W [n, k] in A's type, to the bit as wgmma kernels multiply it.

    Products of integers or E4M3 and scales are rounded once. E2M1 times its scale is exact, except that BF16
    overflows to infinity."""
    return exact(packed, problem).to(dtype_of(problem.a))


def exact(packed: weight_layout.Packed, problem: Problem) -> torch.Tensor:
    """W [n, k] in float64, a gated one with gate's rows first: what stream kernels multiply, whose scales of
    integers and E4M3 are factors of sums."""
    format, group = FORMATS[problem.weight_format]
    dtype = dtype_of(problem.a)
    of_scales = {"mxfp4": torch.uint8, "nvfp4": torch.float8_e4m3fn}.get(format, dtype)
    n, k = problem.n, problem.k
    codes, scales, zeros = weight_layout.unpack(
        packed, n, k, format=format, group=group, scale_dtype=of_scales
    )
    if problem.gated:
        codes, scales = weight_layout.separated(codes), weight_layout.separated(scales)
        zeros = None if zeros is None else weight_layout.separated(zeros)
    factors = _powers(scales) if format == "mxfp4" else scales.double()
    factors = factors.repeat_interleave(group, -1)[:, :k]
    if format in ("mxfp4", "nvfp4"):
        table = torch.tensor([*_E2M1, *(-x for x in _E2M1)], dtype=torch.float64, device=codes.device)
        return table[codes.long()] * factors
    if format == "e4m3":
        return codes.view(torch.float8_e4m3fn).double() * factors
    middle = float(weight_formats.FORMATS[format].middle)
    offsets = middle if zeros is None else zeros.double().repeat_interleave(group, -1)[:, :k]
    return (codes.double() - offsets) * factors


def _powers(scales: torch.Tensor) -> torch.Tensor:
    """2^(scale - 127) of UE8M0; NaN for 255."""
    powers = torch.exp2(scales.double() - 127)
    return torch.where(scales == 255, torch.nan, powers)
