"""The `blockscaled_gemm` family at run time: problem, selection, and the ops on NVFP4, MXFP4 and MXFP8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.blockscaled_gemm.op import mm_mxfp4 as mm_mxfp4
    from tilewright.ops.blockscaled_gemm.op import mm_mxfp8 as mm_mxfp8
    from tilewright.ops.blockscaled_gemm.op import mm_mxfp8_mxfp4 as mm_mxfp8_mxfp4
    from tilewright.ops.blockscaled_gemm.op import mm_nvfp4 as mm_nvfp4

OPS = ("mm_nvfp4", "mm_mxfp4", "mm_mxfp8", "mm_mxfp8_mxfp4")


def __getattr__(name: str) -> Any:
    if name in OPS:  # torch is imported with the ops, not before
        from tilewright.ops.blockscaled_gemm import op  # noqa: PLC0415

        return getattr(op, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
