"""Several weights as one: experts as a stack, projections of one input as rows of one weight."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights.code_formats import CODE_FORMATS
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import check_kind


def stack(experts: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """Weights [n, k] of equal shape, format, group and scales' dtype as a stack [experts, n, k].

    Where some have zero points and others none, the others get the middle (8 or 128), which means the same.

    Raises:
        ArgumentError: there are none, or they differ.
    """
    _check_alike(experts)
    shapes = {tuple(x.codes.shape) for x in experts}
    if len(shapes) > 1:
        raise ArgumentError("experts", f"expected one shape, got {sorted(shapes)}")
    zeros = _zeros(experts)
    factors = tuple(global_scale_of(x) for x in experts)
    return QuantizedWeight(
        codes=torch.stack([x.codes for x in experts]),
        scales=torch.stack([x.scales for x in experts]),
        group=experts[0].group,
        format=experts[0].format,
        zeros=None if zeros is None else torch.stack(zeros),
        global_scale=factors[0] if len(set(factors)) == 1 else factors,
    )


def concatenate(projections: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """Weights [n, k] of one k, format, group and scales' dtype as one weight, whose n is the sum.

    The projections of one input (q, k and v; gate and up) so become one product.

    Raises:
        ArgumentError: there are none, or they differ; global scales that differ, too: the product has one.
    """
    _check_alike(projections)
    widths = {x.k for x in projections}
    factors = {global_scale_of(x) for x in projections}
    if len(widths) > 1:
        raise ArgumentError("projections", f"expected one k, got {sorted(widths)}")
    if len(factors) > 1:
        raise ArgumentError(
            "projections",
            f"expected one global scale, got {sorted(factors)}",
            hint="multiply by each in a call of its own",
        )
    zeros = _zeros(projections)
    return QuantizedWeight(
        codes=torch.cat([x.codes for x in projections]),
        scales=torch.cat([x.scales for x in projections]),
        group=projections[0].group,
        format=projections[0].format,
        zeros=None if zeros is None else torch.cat(zeros),
        global_scale=projections[0].global_scale,
    )


def _check_alike(weights: Sequence[QuantizedWeight]) -> None:
    if not isinstance(weights, (list, tuple)):
        raise ArgumentTypeError("weights", f"expected a list of weights, got {type(weights).__name__}")
    if not weights:
        raise ArgumentError("weights", "none, expected one or more")
    for weight in weights:
        check_kind("weights", weight, QuantizedWeight)
    if any(x.experts is not None for x in weights):
        raise ArgumentError("weights", "a stack of experts is among them, expected weights [n, k]")
    kinds = {(x.format, x.group, str(x.scales.dtype)) for x in weights}
    if len(kinds) > 1:
        raise ArgumentError("weights", f"expected one format, group and dtype of scales, got {sorted(kinds)}")


def global_scale_of(weight: QuantizedWeight) -> float:
    """The global scale of a weight that is no stack."""
    return weight.global_scale[0] if isinstance(weight.global_scale, tuple) else weight.global_scale


def _zeros(weights: Sequence[QuantizedWeight]) -> list[torch.Tensor] | None:
    """The zero points of each weight, or None where no weight has any."""
    if all(x.zeros is None for x in weights):
        return None
    middle = CODE_FORMATS[weights[0].format].middle
    filled = [torch.full_like(x.scales, middle or 0, dtype=torch.uint8) for x in weights if x.zeros is None]
    return [filled.pop(0) if x.zeros is None else x.zeros for x in weights]
