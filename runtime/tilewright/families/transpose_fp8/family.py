"""The `transpose_fp8` family as selection sees it: one kernel for all problems."""

from __future__ import annotations

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.transpose_fp8.problem import Problem
from tilewright.selection import copies
from tilewright.selection.family import Family


class _Transpose(Family[Problem]):
    name = "transpose_fp8"
    problem = Problem
    estimator = staticmethod(copies.estimator)
    placement = ("groups",)
    neighbour = "rows"

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return None  # it adds nothing up


FAMILY = _Transpose()
