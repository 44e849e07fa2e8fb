"""The public op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls.guards import certainly, check_word, dims, refuse
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.scale_columns.family import FAMILY
from tilewright.families.scale_columns.interface import INTERFACE
from tilewright.families.scale_columns.problem import (
    ALONG_K,
    ATOM_ROWS,
    ATOM_SOURCE_BLOCKS,
    ATOMS,
    GROUPINGS,
    LAYOUTS,
    Problem,
)

STORED_BYTES = 16  # that the kernel of the 128x4 layout stores at once


class _ScaleColumns(Op):
    interface = INTERFACE
    family = FAMILY
    passed = ("scales", "out")

    def fields(self, values: Values) -> Mapping[str, Any]:
        scales, groups = values["scales"], values["groups"]
        for name, legal in (("layout", LAYOUTS), ("grouping", GROUPINGS)):
            check_word(name, values[name], legal)
        if not isinstance(scales, torch.Tensor) or scales.dim() < 2:  # the checks say so
            return {"words": False}
        row_major = not certainly(scales.shape[-1] > 1) or not certainly(scales.stride(-1) != 1)
        return {
            "row_major": row_major,
            "words": values["layout"] == ATOMS and scales.dtype == torch.int32,
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
        _check_atoms(values, problem)

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Any stride of scales is supported, because the kernel loads single elements. A result in the 128x4
        layout that has gaps, or begins at no multiple of 16 bytes, is written elsewhere first."""
        problem, out = arguments.problem, arguments.matrices.get("out")
        if not problem.atoms or out is None:
            return Placement(problem)
        whole = out.row_stride == out.columns or out.rows <= 1
        whole = whole and (out.batch_stride == out.rows * out.columns or out.batch <= 1)
        whole = whole and addresses.get("out", STORED_BYTES) % STORED_BYTES == 0
        return Placement(problem, frozenset() if whole else frozenset({"out"}))


def _check_atoms(values: Values, problem: Problem) -> None:
    """Raises ArgumentError for options that the layout does not have, and for scales of another matrix."""
    if not problem.atoms:
        for name in ("rows", "k"):
            refuse(values[name] is not None, name, f"it is only supported for layout {ATOMS}")
        return
    refuse(problem.grouping != "none", "grouping", f"expected none for layout {ATOMS}")
    if problem.block not in ATOM_SOURCE_BLOCKS:
        raise ArgumentError("block", f"it is {problem.block}; expected 32 or 128 for layout {ATOMS}")
    rows, k, per_column = values["rows"], values["k"], problem.column_k
    if rows is not None and certainly(problem.m != rows) and certainly(problem.m != -(-rows // ATOM_ROWS)):
        message = f"it has {problem.m} rows; expected {rows}, or {-(-rows // ATOM_ROWS)} for {ATOM_ROWS} each"
        raise ArgumentError("scales", message)
    if k is not None and certainly(problem.columns != -(-k // per_column)):
        message = f"it has {problem.columns} columns for {per_column} of k each; k of {k} has"
        raise ArgumentError("scales", f"{message} {-(-k // per_column)}")


@public(_ScaleColumns())
def scale_columns(
    scales: torch.Tensor,
    groups: torch.Tensor | None = None,
    *,
    layout: str = "m_major",
    grouping: str = "none",
    alignment: int = 128,
    block: int = 128,
    rows: int | None = None,
    k: int | None = None,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Writes scales in a layout that kernels of products read, on the current stream: as columns, which TMA
    reads, or as bytes of the 128x4 layout, which block-scaled products (`tilewright.mm_mxfp8`) read.

    If `out` is the result in columns, the view `out.mT[..., :m, :]` is the tensor of scales in the layout of
    `tilewright.blockwise_scales`.

    Args:
        scales: [m, columns] or [batch, m, columns], float32; one of m and columns contiguous. For 128x4 also
            int32, words of four exponents (`packed`, as DeepGEMM has them).
        groups: int32 on the device, one number for each group; read when the kernel runs.
        layout: m_major: a line is a column of floats; packed: a line of int32 holds the exponents (UE8M0) of
            four columns, the first in the lowest byte. Floats that are not powers of two lose their
            mantissa. 128x4: bytes of UE8M0, one for 32 of k, at `tilewright.scale_factors.index`. A float
            that is no power of two becomes NaN, which products then show: a rounded scale would be up to
            twice what the data were divided by. 0 becomes 2^-127.
        grouping: what `groups` says.
            none: there are no groups.
            row_ends: the row after each group's last. Groups begin at multiples of `alignment`; rows between
            two groups are not read, and become 0.
            k_sizes: elements of k of each group. The columns of groups follow one another, and each group
            starts a new word. Only for packed.
            k_ends: the element of k after each group's last. Groups begin at multiples of `alignment`, and
            their columns follow one another, too.
        alignment: see `grouping`.
        block: elements of k that share a scale, for k_sizes, k_ends and 128x4 (32 or 128).
        rows: for 128x4, rows of the matrix: m, or any number of which m is 128 to a row of scales (blocks of
            128x128). m if absent.
        k: for 128x4, k of the matrix, which decides how many bytes a row has; as much as the columns scale
            if absent.
        out: the result's tensor, contiguous rows; made if absent.
        tactic: a kernel's name, instead of the one selected.

    Returns:
        [lines, m rounded up to 4], float32 or int32, with the batch first where scales have one; beyond m,
        zeros. There are `columns` lines, or ceil(columns / 4) if packed; with groups along k also one more
        for each group. Lines after the last group's words are 0. For 128x4 [rows rounded up to 128,
        ceil(k / 32) rounded up to 4], float8_e8m0fnu, with zeros for padding; a scale of 128 of k fills four
        bytes even where k ends before.
    """
    raise AssertionError("`calls.protocol` writes the body")
