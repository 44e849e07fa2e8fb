"""Humming's layers of packed weights, where it can be imported."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.families.mixed_gemm.problem import FORMATS

try:
    from humming.layer import HummingLayer
    from humming.tune import get_heuristics_class, get_heuristics_config
except ImportError:
    HummingLayer = None

# Humming's words for a format.
HUMMING: dict[str, dict[str, Any]] = {
    "int4": {"b_dtype": "uint4"},
    "mxfp4": {"b_dtype": "float4e2m1", "bs_dtype": "float8e8m0"},
    "nvfp4": {"b_dtype": "float4e2m1", "bs_dtype": "float8e4m3"},
    "int8": {"b_dtype": "uint8"},
    "e4m3": {"b_dtype": "float8e4m3"},
}


def humming_layer(n: int, k: int, weight_format: str, wide: torch.Tensor, **more: Any) -> Any:
    """Humming's layer with a quantised form of `wide`; None if it has no such format."""
    format, group = FORMATS[weight_format]
    if HummingLayer is None or format not in HUMMING:
        return None
    config = HUMMING[format] | {"weight_scale_group_size": group}
    layer = HummingLayer(n, k, config, torch_dtype=wide.dtype, **more).cuda()
    layer.load_from_unquantized(wide)
    layer.transform()
    return layer


def humming_tuning(layer: Any, m: int, **compute: Any) -> dict[str, Any]:
    """The configuration of Humming's default kernel for m rows.

    A call without a configuration compiles the kernels of all m, about 90 for a layer.
    """
    sample = get_heuristics_class().get_shape_m_sample(layer.humming_config, m)
    return get_heuristics_config(layer.humming_config, shape_m=sample, **compute)
