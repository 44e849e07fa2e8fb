"""In which types the linear layers of a checkpoint are multiplied, and which of them are not quantised."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tilewright.models.configuration import Decoder, Quantization

BLOCK = 128  # rows and columns of a weight that share a scale, in the scheme fp8_block
SCHEMES = ("bf16", "f16", "fp8", "fp8_block")
_EXPERTS_ALONE = ("mxfp4",)  # methods that quantise the experts, and no other layer


class Scheme(NamedTuple):
    """How a layer's weights are multiplied: one of SCHEMES, `mxfp4` of experts, or "" and the reason why
    tilewright does not."""

    name: str
    reason: str = ""


def linear(decoder: Decoder, demanded: str | None) -> Scheme:
    """The scheme of the layers that are quantised, without experts; `demanded` overrules the checkpoint."""
    if demanded or decoder.quantization.method in _EXPERTS_ALONE:
        return Scheme(demanded or decoder.dtype)
    return experts(decoder, None)


def experts(decoder: Decoder, demanded: str | None) -> Scheme:
    """The scheme of the experts."""
    if demanded or not decoder.quantization.method:
        return Scheme(demanded or decoder.dtype)
    if decoder.quantization.method in _EXPERTS_ALONE:
        return Scheme(decoder.quantization.method)
    return _of_checkpoint(decoder.quantization)


def _of_checkpoint(quantization: Quantization) -> Scheme:
    method, block = quantization.method, quantization.block
    if method != "fp8":
        return Scheme("", f"its weights are quantised by {method}, and no kernel multiplies such weights")
    if not block:
        return Scheme("fp8")
    if block != (BLOCK, BLOCK):
        sides = "x".join(map(str, block))
        return Scheme("", f"blocks of {sides} of its weights share a scale; kernels have {BLOCK}x{BLOCK}")
    return Scheme("fp8_block")


def plain_layers(quantization: Quantization, modules: Collection[str], count: int) -> int:
    """How many of `count` layers have these modules without quantising, by `modules_to_not_convert`.

    An entry names a module of one layer (`model.layers.3.self_attn.o_proj`), or of all (`lm_head`,
    `model.layers.*.self_attn`).
    """
    numbers: set[str] = set()
    for name in quantization.plain:
        *parents, last = name.split(".")
        if last in modules:
            number = next((part for part in parents if part.isdecimal()), None)
            if number is None:
                return count
            numbers.add(number)
    return min(count, len(numbers))
