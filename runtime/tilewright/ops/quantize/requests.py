"""What the arguments of each public op beside its tensors ask: parameters are named as the op's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.ops.common.formats import MXFP8_FORMATS
from tilewright.ops.common.guards import check_flag, dtypes
from tilewright.ops.quantize.arguments import RESULTS, Request

_BLOCKS = {(1, 128): "fp8_1x128", (128, 128): "fp8_128x128"}


def to_nvfp4(layout: str, shuffle: bool, activation: str, rms_weight: Any, fast: bool) -> Request:
    check_flag("shuffle", shuffle)
    check_flag("fast", fast)
    fusion = _fusion(activation, rms_weight)
    return Request("quantize_nvfp4", "quantize", "nvfp4", layout, fusion, shuffle, not fast)


def to_mxfp4(layout: str, shuffle: bool, activation: str, rms_weight: Any) -> Request:
    check_flag("shuffle", shuffle)
    return Request("quantize_mxfp4", "quantize", "mxfp4", layout, _fusion(activation, rms_weight), shuffle)


def to_mxfp8(dtype: Any, layout: str, shuffle: bool, activation: str, rms_weight: Any) -> Request:
    check_flag("shuffle", shuffle)
    fusion = _fusion(activation, rms_weight)
    return Request("quantize_mxfp8", "quantize", _mxfp8(dtype, "dtype"), layout, fusion, shuffle)


def to_fp8_blockwise(
    block: Sequence[int], scale_type: str, scale_layout: str | None, activation: str, rms_weight: Any
) -> Request:
    name = _blockwise(block)
    if scale_type not in ("float32", "ue8m0"):
        raise ArgumentError("scale_type", f"it is {scale_type!r}; float32 or ue8m0 is wanted")
    packed = scale_type == "ue8m0"
    if scale_layout is None:
        scale_layout = "packed" if packed else "m_major" if name == "fp8_1x128" else "row_major"
    elif (scale_layout == "packed") != packed:
        raise ArgumentError(
            "scale_layout",
            f"it is {scale_layout!r} beside scales of {scale_type}; ue8m0 are packed, and no other",
        )
    return Request("quantize_fp8_blockwise", "quantize", name, scale_layout, _fusion(activation, rms_weight))


def from_nvfp4(layout: str, dtype: torch.dtype | None, out: Any) -> Request:
    return Request("dequantize_nvfp4", "dequantize", "nvfp4", layout, dtype=_dtype(dtype, out))


def from_mxfp4(layout: str, dtype: torch.dtype | None, out: Any) -> Request:
    return Request("dequantize_mxfp4", "dequantize", "mxfp4", layout, dtype=_dtype(dtype, out))


def from_mxfp8(data: Any, layout: str, dtype: torch.dtype | None, out: Any) -> Request:
    if not isinstance(data, torch.Tensor):
        raise ArgumentTypeError("data", f"it is a {type(data).__name__}; a torch.Tensor is wanted")
    name = _mxfp8(data.dtype, "data")
    return Request("dequantize_mxfp8", "dequantize", name, layout, dtype=_dtype(dtype, out))


def from_fp8_blockwise(block: Sequence[int], dtype: torch.dtype | None, out: Any) -> Request:
    name = _blockwise(block)
    return Request("dequantize_fp8_blockwise", "dequantize", name, None, dtype=_dtype(dtype, out))


def _fusion(activation: str, rms_weight: Any) -> str:
    if activation not in ("none", "silu_mul"):
        raise ArgumentError("activation", f"it is {activation!r}; none or silu_mul is wanted")
    if rms_weight is None:
        return activation
    if activation != "none":
        raise ArgumentError("rms_weight", f"it is given beside {activation}; one of the two is possible")
    return "rmsnorm"


def _mxfp8(dtype: Any, argument: str) -> str:
    if not isinstance(dtype, torch.dtype) or dtype not in MXFP8_FORMATS:
        raise ArgumentTypeError(argument, f"its dtype is {dtype}; float8_e4m3fn or float8_e5m2 is wanted")
    return MXFP8_FORMATS[dtype]


def _blockwise(block: Any) -> str:
    try:
        return _BLOCKS[tuple(block)]
    except (TypeError, KeyError):
        raise ArgumentError("block", f"it is {block!r}; (1, 128) or (128, 128) is wanted") from None


def _dtype(dtype: torch.dtype | None, out: Any) -> torch.dtype:
    if dtype is not None:
        return dtype
    if not isinstance(out, torch.Tensor):
        return torch.bfloat16
    if out.dtype not in RESULTS:
        known = dtypes(RESULTS)
        raise ArgumentTypeError("out", f"its dtype is {out.dtype}; one of {known} is wanted")
    return out.dtype
