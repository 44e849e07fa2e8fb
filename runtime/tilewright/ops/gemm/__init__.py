"""The `gemm` family at run time: problem, tactics, selection, and the op itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.gemm.op import gemm as gemm


OPS = ("gemm",)


def __getattr__(name: str) -> Any:
    if name in OPS:  # torch is imported with the op, not before
        from tilewright.ops.gemm.op import gemm  # noqa: PLC0415

        return gemm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
