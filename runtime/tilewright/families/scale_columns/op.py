"""The public op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls.guards import certainly, check_word, dims
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.scale_columns.family import FAMILY
from tilewright.families.scale_columns.interface import INTERFACE
from tilewright.families.scale_columns.problem import ALONG_K, GROUPINGS, LAYOUTS, Problem


class _ScaleColumns(Op):
    interface = INTERFACE
    family = FAMILY
    passed = ("scales", "out")

    def fields(self, values: Values) -> Mapping[str, Any]:
        scales, groups = values["scales"], values["groups"]
        for name, legal in (("layout", LAYOUTS), ("grouping", GROUPINGS)):
            check_word(name, values[name], legal)
        if not isinstance(scales, torch.Tensor) or scales.dim() < 2:  # the checks say so
            return {}
        row_major = not certainly(scales.shape[-1] > 1) or not certainly(scales.stride(-1) != 1)
        return {
            "row_major": row_major,
            "group_count": groups.numel() if isinstance(groups, torch.Tensor) else 0,
            **{name: values[name] for name in ("layout", "grouping", "alignment", "block")},
        }

    def rules(self, values: Values, problem: Problem) -> None:
        scales, grouped = values["scales"], problem.grouping != "none"
        if not problem.row_major and certainly(scales.stride(-2) != 1) and certainly(problem.m > 1):
            raise ArgumentError(
                "scales", f"expected 1 for one of the last two strides, got {tuple(scales.stride())}"
            )
        if grouped != (values["groups"] is not None):
            expected, actual = ("a tensor", "None") if grouped else ("None", "a tensor")
            message = f"expected {expected} for grouping {problem.grouping!r}, got {actual}"
            raise ArgumentError("groups", message)
        if grouped and certainly(problem.group_count == 0):
            raise ArgumentError("groups", "expected a number for each group, got none")
        if grouped and scales.dim() != 2:
            raise ArgumentError("scales", f"expected two dimensions with groups, got {dims(scales.shape)}")
        if problem.grouping in ALONG_K and not problem.packed:
            raise ArgumentError("grouping", f"{problem.grouping} is only supported for layout packed")

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Any stride is supported, because the kernel loads single floats."""
        return Placement(arguments.problem)


@public(_ScaleColumns())
def scale_columns(
    scales: torch.Tensor,
    groups: torch.Tensor | None = None,
    *,
    layout: str = "m_major",
    grouping: str = "none",
    alignment: int = 128,
    block: int = 128,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Writes FP32 scales as the columns that kernels of products read by TMA, on the current stream.

    If `out` is the result, the view `out.mT[..., :m, :]` is the tensor of scales in the layout of
    `tilewright.blockwise_scales`.

    Args:
        scales: [m, columns] or [batch, m, columns], float32; one of m and columns contiguous.
        groups: int32 on the device, one number for each group; read when the kernel runs.
        layout: m_major: a line is a column of floats; packed: a line of int32 holds the exponents (UE8M0) of
        four columns, the first in the lowest byte. Floats that are not powers of two lose their mantissa.
        grouping: what `groups` says.
            none: there are no groups.
            row_ends: the row after each group's last. Groups begin at multiples of `alignment`; rows between
            two groups are not read, and become 0.
            k_sizes: elements of k of each group. The columns of groups follow one another, and each group
            starts a new word. Only for packed.
            k_ends: the element of k after each group's last. Groups begin at multiples of `alignment`, and
            their columns follow one another, too.
        alignment: see `grouping`.
        block: elements of k that share a scale, for k_sizes and k_ends.
        out: the result's tensor, contiguous rows; made if absent.
        tactic: a kernel's name, instead of the one selected.

    Returns:
        [lines, m rounded up to 4], float32 or int32, with the batch first where scales have one; beyond m,
        zeros. There are `columns` lines, or ceil(columns / 4) if packed; with groups along k also one more
        for each group. Lines after the last group's words are 0.
    """
    raise AssertionError("`calls.protocol` writes the body")
