"""The `scale_columns` family as selection sees it: one kernel does all."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.scale_columns.problem import Problem


class _ScaleColumns(Family[Problem]):
    name = "scale_columns"
    problem = Problem
    placement = ("grouping", "group_count", "alignment", "block", "row_major")


FAMILY = _ScaleColumns()
