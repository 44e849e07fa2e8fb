"""Measures how far a kernel's D is from the exact one, with bounds that a wrong result cannot satisfy.

A cosine does not show a wrong alpha, norms do not show one wrong element, and errors of elements do not show
a bias within each element's tolerance. So all three are measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tilewright.errors import ArgumentError
from tilewright.tools.reference.formats import Format, find_format
from tilewright.tools.reference.quantization import blocks_of

# The error relative to sum |a||b|: enough for 32-bit sums up to k = 8192 with any signs; see
# `accumulation_slack`.
ACCUMULATION_SLACK = 2.0**-14
NORM_TOLERANCE = 0.01
_E4M3_HALF_SUBNORMAL = 2.0**-10
_UE8M0_MIN = 2.0**-127


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """DeepGEMM's measure 1 - 2 sum(x y) / sum(x^2 + y^2), in float64: 0 for equal tensors, half the square of
    a small relative error."""
    x, y = actual.double(), expected.double()
    energy = float((x.square() + y.square()).sum())
    return 1 - 2 * float((x * y).sum()) / energy if energy else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """D against the exact product."""

    cosine: float  # of the angle between the two, as vectors; 1 where both are 0
    norm_ratio: float  # of D's norm to the exact one; 1 where both are 0
    worst: float  # largest error of an element in units of its bound; infinite for a NaN out of place
    where: tuple[int, ...]  # the index of that element; empty if D is empty
    found: float  # D's value there
    wanted: float  # the exact value there

    def passes(self, cosine: float = 0.999, norm: float = NORM_TOLERANCE) -> bool:
        """Whether every element is within its bound, the cosine at least and the norm off by at most that."""
        return self.cosine >= cosine and abs(self.norm_ratio - 1) <= norm and self.worst <= 1

    def __str__(self) -> str:
        return (
            f"cosine {self.cosine:.6f}, norm ratio {self.norm_ratio:.6f}, worst element {self.worst:.3g} of "
            f"its bound: {self.found:.8g} instead of {self.wanted:.8g} at {list(self.where)}"
        )


def accumulation_slack(k: int, depth: int = 16) -> float:
    """The error of a 32-bit sum of k products with any signs, relative to sum |a||b|.

    An MMA adds `depth` products to the sum so far and truncates to 24 bits: less than 2^-23 of the partial
    sum is lost each time. Partial sums are on average at most half of sum |a||b|, unless data have a trend
    along k; the other half is for aligning the products within an MMA, 2^-20 for the epilogue and few steps.
    """
    return 2.0**-20 + 2.0**-23 * -(-k // depth)


def error_bounds(
    exact: torch.Tensor,
    magnitude: torch.Tensor,
    dtype: torch.dtype | str | Format,
    *,
    slack: float = ACCUMULATION_SLACK,
    global_scale: float = 1.0,
) -> torch.Tensor:
    """The largest error that each element of D may have: its sum's and its rounding's, in float64.

    The sum's is slack * magnitude (see `magnitude`); D's rounding is half a unit in its last place, the
    subnormals' included. For a quantised D, `dtype` is its format, `exact` is [..., m, n] and the bound is of
    the dequantised value: the element's rounding, by a scale as large as the block's largest element makes
    it, and that of NVFP4's scale under `global_scale`, which must not make a scale exceed 448.
    """
    sums = slack * magnitude.double()
    size = exact.double().abs() + sums
    if isinstance(dtype, torch.dtype):
        if dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise ArgumentError("dtype", f"{dtype}, expected bfloat16, float16, float32 or a format")
        info = torch.finfo(dtype)
        return sums + size * (info.eps / 2) + info.smallest_normal * (info.eps / 2)
    kind = find_format(dtype, "dtype")
    amax = blocks_of(size, kind.block).amax(dim=-1, keepdim=True)
    if kind.scale == "e4m3":
        underflow = _E4M3_HALF_SUBNORMAL / global_scale
        scale = amax / kind.max * (1 + 2.0**-4) + underflow
        extra = kind.max * underflow  # a scale that is too small by this saturates the block's largest
    else:
        scale = (2 * amax / kind.max).clamp(min=_UE8M0_MIN)
        extra = 0.0
    scale = scale.expand(*scale.shape[:-1], kind.block).flatten(-2)[..., : exact.shape[-1]]
    return sums + size * kind.roundoff + scale * kind.subnormal_roundoff + extra


def compare(
    d: torch.Tensor,
    exact: torch.Tensor,
    magnitude: torch.Tensor,
    dtype: torch.dtype | str | Format | None = None,
    *,
    slack: float = ACCUMULATION_SLACK,
    global_scale: float = 1.0,
) -> Comparison:
    """Cosine, norm ratio and worst element of D against the exact product; `dtype` is D's own if None.

    A quantised D is passed dequantised, with its format as `dtype` (see `error_bounds`). D must be NaN where
    `exact` is NaN, and infinite where `exact` is infinite; an infinite D is also right if the exact value,
    within its bound, rounds to infinity. Cosine and norms are over elements that are finite in both.

    Raises:
        ArgumentError: shapes differ, or `dtype` is no type of D.
    """
    for name, tensor in (("exact", exact), ("magnitude", magnitude)):
        if tensor.shape != d.shape:
            raise ArgumentError(name, f"shape {tuple(tensor.shape)}, expected {tuple(d.shape)} as of d")
    kind = d.dtype if dtype is None else dtype
    bounds = error_bounds(exact, magnitude, kind, slack=slack, global_scale=global_scale)
    actual, expected = d.double().flatten(), exact.double().flatten()
    if actual.numel() == 0:
        return Comparison(1.0, 1.0, 0.0, (), math.nan, math.nan)
    error = _relative_errors(actual, expected, bounds.flatten(), kind)
    at = int(error.argmax())
    finite = actual.isfinite() & expected.isfinite()
    cosine, ratio = _direction_and_length(actual[finite], expected[finite])
    where = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), d.shape))
    return Comparison(cosine, ratio, float(error[at]), where, float(actual[at]), float(expected[at]))


def _relative_errors(
    actual: torch.Tensor, expected: torch.Tensor, bounds: torch.Tensor, kind: torch.dtype | str | Format
) -> torch.Tensor:
    error = (actual - expected).abs() / bounds
    error = torch.where(error.isnan() | bounds.isnan() | bounds.isinf(), torch.inf, error)
    met = (actual == expected) | (actual.isnan() & expected.isnan())
    if isinstance(kind, torch.dtype):
        # `bounds` holds the rounding to `kind`: what may exceed the largest finite value may become infinite.
        overflows = expected.abs() + bounds > torch.finfo(kind).max
        met |= actual.isinf() & overflows & (actual.sign() == expected.sign())
    return torch.where(met, 0.0, error)


def _direction_and_length(actual: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """Cosine and norm ratio; each vector is scaled by its largest element, so that no square overflows."""
    largest = [float(vector.abs().amax()) if vector.numel() else 0.0 for vector in (actual, expected)]
    if 0.0 in largest:
        same = largest[0] == largest[1]
        return float(same), 1.0 if same else (math.inf if largest[0] else 0.0)
    first, second = actual / largest[0], expected / largest[1]
    norms = float(first.norm()), float(second.norm())
    cosine = float(first @ second) / (norms[0] * norms[1])
    return cosine, norms[0] / norms[1] * (largest[0] / largest[1])
