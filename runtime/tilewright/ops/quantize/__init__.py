"""The `quantize` family at run time: problem, selection, and the ops that quantise and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.quantize.op import dequantize_fp8_blockwise as dequantize_fp8_blockwise
    from tilewright.ops.quantize.op import dequantize_mxfp4 as dequantize_mxfp4
    from tilewright.ops.quantize.op import dequantize_mxfp8 as dequantize_mxfp8
    from tilewright.ops.quantize.op import dequantize_nvfp4 as dequantize_nvfp4
    from tilewright.ops.quantize.op import quantize_fp8_blockwise as quantize_fp8_blockwise
    from tilewright.ops.quantize.op import quantize_mxfp4 as quantize_mxfp4
    from tilewright.ops.quantize.op import quantize_mxfp8 as quantize_mxfp8
    from tilewright.ops.quantize.op import quantize_nvfp4 as quantize_nvfp4

OPS = (
    "quantize_nvfp4", "quantize_mxfp4", "quantize_mxfp8", "quantize_fp8_blockwise",
    "dequantize_nvfp4", "dequantize_mxfp4", "dequantize_mxfp8", "dequantize_fp8_blockwise",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in OPS:  # torch is imported with the ops, not before
        from tilewright.ops.quantize import op  # noqa: PLC0415

        return getattr(op, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
