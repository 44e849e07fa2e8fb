"""The block-scaled product, in float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from tilewright.errors import ArgumentError
from tilewright.scale_factors import LayoutName
from tilewright.tools.reference.formats import Format, find_format
from tilewright.tools.reference.quantization import Stored

Factor: TypeAlias = "float | torch.Tensor"


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    format_a: str | Format,
    *,
    format_b: str | Format | None = None,
    alpha: Factor = 1.0,
    beta: Factor | None = None,
    c: torch.Tensor | None = None,
    k: int | None = None,
    layout: LayoutName = "128x4",
    magnitudes: bool = False,
) -> torch.Tensor:
    """D = alpha * (A * SFA)(B * SFB)^T + beta * C in float64, [..., m, n]; operands as `mm_nvfp4` takes them.

    Args:
        a: [..., m, bytes of k] of any 1-byte dtype.
        b: [..., bytes of k, n]: the transpose of what `quantize` makes of the [n, k] matrix. Without batch
            dimensions it serves all of A's.
        a_scales, b_scales: in `layout`, padded, with the batch of their operand; B's rows are n.
        format_b: A's format if None.
        alpha: one number; for NVFP4 it holds 1 / (global scale of A * global scale of B).
        beta: one number; by default 1 with c and 0 without.
        c: broadcasts to [..., m, n]; not read if `beta` is 0.
        k: elements; only needed for FP4 with an odd k.
        magnitudes: whether factors are multiplied without their signs: see `magnitude`.

    Element products are exact, and a sum is off by at most k * 2^-53 * `magnitude`; NaN scales and elements
    make their rows and columns of D NaN.

    Raises:
        ArgumentError, ArgumentTypeError: of formats, shapes, dtypes, or scales that lack their padding.
    """
    left, right = _operands(
        Stored(a, a_scales, find_format(format_a, "format_a"), k, layout, "a", "a_scales"),
        _second(b, b_scales, format_b or format_a, k, layout),
    )
    alpha, beta = _number("alpha", alpha), _factor_of_c(beta, c)
    if magnitudes:
        left, right, alpha, beta, c = (
            left.abs(),
            right.abs(),
            abs(alpha),
            abs(beta),
            c if c is None else c.abs(),
        )
    result = alpha * (left @ right)
    if beta == 0:
        return result
    if c is None:
        raise ArgumentError("c", f"None, expected a tensor: beta is {beta}")
    return result + beta * c.double()


def magnitude(*operands: Any, **options: Any) -> torch.Tensor:
    """|alpha| * |A * SFA| |B * SFB|^T + |beta * C|: the scale of the errors of `product`'s sums. It takes the
    arguments of `product`."""
    return product(*operands, **options, magnitudes=True)


def _operands(a: Stored, b: Stored) -> tuple[torch.Tensor, torch.Tensor]:
    """A [..., m, k] and B [..., k, n] in float64, scaled."""
    left, right = a.values(), b.values().mT
    if left.shape[-1] != right.shape[-2]:
        raise ArgumentError("b", f"k is {right.shape[-2]}, expected {left.shape[-1]} as of a")
    if right.ndim > 2 and left.shape[:-2] != right.shape[:-2]:
        actual, expected = tuple(right.shape[:-2]), tuple(left.shape[:-2])
        raise ArgumentError("b", f"batch {actual}, expected none or {expected} as of a")
    return left, right


def _second(
    b: torch.Tensor, scales: torch.Tensor, format: str | Format, k: int | None, layout: LayoutName
) -> Stored:
    if b.ndim < 2:
        raise ArgumentError("b", f"shape {tuple(b.shape)}, expected [..., bytes of k, n]")
    return Stored(b.mT, scales, find_format(format, "format_b"), k, layout, "b", "b_scales")


def _factor_of_c(beta: Factor | None, c: torch.Tensor | None) -> float:
    return float(c is not None) if beta is None else _number("beta", beta)


def _number(argument: str, value: Factor) -> float:
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        raise ArgumentError(argument, f"shape {tuple(value.shape)}, expected one number")
    return float(value)
