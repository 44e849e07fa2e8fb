"""The `scale_columns` family at run time: FP32 scales into the layouts that kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.scale_columns.op import scale_columns as scale_columns

OPS = ("scale_columns",)


def __getattr__(name: str) -> Any:
    if name in OPS:  # torch is imported with the op, not before
        from tilewright.ops.scale_columns.op import scale_columns  # noqa: PLC0415

        return scale_columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
