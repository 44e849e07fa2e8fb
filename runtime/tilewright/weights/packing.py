"""Packs weights into the layout that kernels read (`tilewright.weight_layout`), and unpacks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from tilewright import weight_formats, weight_layout
from tilewright.errors import ArgumentError
from tilewright.weights.joining import global_scale_of, stack
from tilewright.weights.packed import SCALE_DTYPES, PackedFormat, PackedWeight, check_halves
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import check_kind


def pack_weight(
    weight: QuantizedWeight, dtype: torch.dtype | None = None, *, gated: bool = False
) -> PackedWeight:
    """Packs a weight, or each expert of a stack, into the layout that kernels read, on the weight's device.

    Args:
        weight: of format `int4` (groups of 32, 64 or 128, or -1), `int8` or `e4m3` (groups of 128, or -1),
            `mxfp4` or `nvfp4`; n a multiple of 8, k of 32.
        dtype: for `int4`, `int8` and `e4m3`, the type of the activations, bfloat16 or float16. Scales of
            another type are rounded to it (float32 and float16 to bfloat16: a relative error of at most
            2^-9). None: the type of the scales, which must be one of the two. `mxfp4` and `nvfp4` have scales
            of their own types, and ignore it.
        gated: packs a merged weight of gate and up (`concatenate([gate, up])`), whose rows are those of gate
            and then those of up, for products with `activation="silu_mul"`: 8 rows of each in turn. n is a
            multiple of 16.

    Scales of 8-bit weights that all are one number, as those of a whole tensor, become the global scale,
    which is float32, unless the type of the activations holds them.

    Raises:
        ArgumentError: a format, group, extent, code or scale that the layout does not have.
    """
    check_kind("weight", weight, QuantizedWeight)
    weight_layout.check_extents(weight.n, weight.k)
    check_kind("gated", gated, bool)
    if gated:
        check_halves(weight.n)
    format = _format_of(weight)
    count = weight.experts
    experts = [weight] if count is None else [weight.expert(index) for index in range(count)]
    if weight_formats.FORMATS[format].typed:
        experts = [_typed(x, dtype) for x in experts]
    if gated:
        experts = [_with_rows(x, weight_layout.interleaved) for x in experts]
    parts = [weight_layout.pack(x.codes, x.scales, x.zeros, format=format, group=x.group) for x in experts]
    factors = tuple(global_scale_of(x) for x in experts)
    return PackedWeight(
        weight=parts[0].weight if count is None else torch.stack([x.weight for x in parts]),
        scale=parts[0].scale if count is None else torch.stack([x.scale for x in parts]),
        n=weight.n,
        k=weight.k,
        format=format,
        group=weight.group,
        dtype=experts[0].scales.dtype if weight_formats.FORMATS[format].typed else None,
        global_scale=factors[0] if len(set(factors)) == 1 else factors,
        gated=gated,
    )


def _with_rows(weight: QuantizedWeight, order: Callable[[torch.Tensor], torch.Tensor]) -> QuantizedWeight:
    """The weight with its rows in another order."""
    zeros = None if weight.zeros is None else order(weight.zeros)
    return replace(weight, codes=order(weight.codes), scales=order(weight.scales), zeros=zeros)


def _format_of(weight: QuantizedWeight) -> PackedFormat:
    """What the format is called when it is packed."""
    if weight.zeros is None:
        return weight.format
    if weight.format == "int8":
        raise ArgumentError(
            "weight", "int8 with zero points has no packed layout, expected int8 without, or int4"
        )
    return "int4_zp"


def unpack_weight(packed: PackedWeight) -> QuantizedWeight:
    """The weight that was packed: the same codes and zero points, and the scales as they were packed."""
    check_kind("packed", packed, PackedWeight)
    if packed.experts is None:
        return _unpacked(packed)
    return stack([_unpacked(packed.expert(index)) for index in range(packed.experts)])


def _unpacked(packed: PackedWeight) -> QuantizedWeight:
    codes, scales, zeros = weight_layout.unpack(
        weight_layout.Packed(packed.weight, packed.scale),
        packed.n,
        packed.k,
        format=packed.format,
        group=packed.group,
        scale_dtype=packed.dtype or SCALE_DTYPES[packed.format],
    )
    format = "int4" if packed.format == "int4_zp" else packed.format
    weight = QuantizedWeight(codes, scales, packed.group, format, zeros, packed.global_scale)
    return _with_rows(weight, weight_layout.separated) if packed.gated else weight


def _typed(weight: QuantizedWeight, dtype: torch.dtype | None) -> QuantizedWeight:
    """The weight with scales in the type of the activations."""
    scales, target = weight.scales, weight.scales.dtype if dtype is None else dtype
    check_kind("dtype", target, torch.dtype)
    if target not in {torch.bfloat16, torch.float16}:
        raise ArgumentError(
            "dtype",
            f"expected bfloat16 or float16, got {target}",
            hint="pass dtype=, the type of the activations; the scales are rounded to it",
        )
    typed = scales.to(target)
    if weight.format != "int4" and not torch.equal(typed.to(scales.dtype), scales):
        factor = scales.flatten()[0].item()
        if bool((scales == factor).all()):
            whole = global_scale_of(weight) * factor
            return replace(weight, scales=torch.ones_like(scales, dtype=target), global_scale=whole)
    lost = (typed.isinf() & scales.isfinite()) | ((typed == 0) & (scales != 0))
    if bool(lost.any()):
        before, after = scales[lost][0].item(), typed[lost][0].item()
        raise ArgumentError("dtype", f"a scale of {before:g} would be {after:g} in {target}")
    return replace(weight, scales=typed)
