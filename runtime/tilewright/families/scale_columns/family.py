"""The `scale_columns` family as selection sees it: a kernel for columns, and one for the 128x4 layout."""

from __future__ import annotations

from typing import Any

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.scale_columns.problem import ATOMS, Problem
from tilewright.selection import copies
from tilewright.selection.family import Family


class _ScaleColumns(Family[Problem]):
    name = "scale_columns"
    problem = Problem
    estimator = staticmethod(copies.estimator)
    placement = ("grouping", "group_count", "alignment", "block", "row_major", "words", "rows", "k")

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        writes = record.config.get("writes", "columns")  # absent in a row that no table filled
        if (writes == ATOMS) != (kind.layout == ATOMS):
            return f"it writes {writes}, not {kind.layout}"
        return None

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return None  # it adds nothing up


FAMILY = _ScaleColumns()
