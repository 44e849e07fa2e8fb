"""The public op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls.guards import certainly, dims
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.transpose_fp8.family import FAMILY
from tilewright.families.transpose_fp8.interface import INTERFACE
from tilewright.families.transpose_fp8.problem import Problem


class _Transpose(Op):
    interface = INTERFACE
    family = FAMILY
    passed = ("x", "out")

    def fields(self, values: Values) -> Mapping[str, Any]:
        sizes = values["group_rows"]
        return {"groups": sizes.numel() if isinstance(sizes, torch.Tensor) else 0}

    def rules(self, values: Values, problem: Problem) -> None:
        x = values["x"]
        if values["group_rows"] is None:
            return
        if certainly(problem.groups == 0):
            raise ArgumentError("group_rows", "expected a number for each group, got none")
        if x.dim() != 2:
            raise ArgumentError("x", f"expected two dimensions with groups, got {dims(x.shape)}")

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Any stride and address is supported, because the kernel can move single bytes. With groups, the
        result has no gaps."""
        problem, out = arguments.problem, arguments.matrices.get("out")
        gaps = out is not None and out.rows > 1 and out.row_stride != out.columns
        return Placement(problem, frozenset({"out"} if problem.groups and gaps else ()))


@public(_Transpose())
def transpose_fp8(
    x: torch.Tensor,
    group_rows: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Transposes x, on the current stream: FP8 operands that have m or n contiguous get k contiguous, as the
    tensor cores require.

    Args:
        x: [rows, columns] or [batch, rows, columns], columns contiguous. float8_e4m3fn or float8_e5m2.
        group_rows: int32 on the device, the number of rows of each group: multiples of 128, or 0. They add up
            to `rows`, and are read when the kernel runs.
        out: the result's tensor, rows contiguous; made if absent.
        tactic: a kernel's name, instead of the one selected.

    Returns:
        [columns, rows], with the batch first where x has one. With groups, memory of that shape in which the
        matrices [columns, rows of a group] follow one another, as `grouped_gemm_k` reads them; memory for
        rows after the last group keeps its contents. If `out` has gaps, the result is copied to it.
    """
    raise AssertionError("`calls.protocol` writes the body")
