"""The `scale_columns` family as selection sees it: one kernel for all problems."""

from __future__ import annotations

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.scale_columns.problem import Problem
from tilewright.selection.family import Family


class _ScaleColumns(Family[Problem]):
    name = "scale_columns"
    problem = Problem
    placement = ("grouping", "group_count", "alignment", "block", "row_major")

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return None  # it adds nothing up


FAMILY = _ScaleColumns()
