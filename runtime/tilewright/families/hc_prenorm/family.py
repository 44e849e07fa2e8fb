"""The `hc_prenorm` family as selection sees it."""

from __future__ import annotations

from tilewright.declarations.table import KernelRecord
from tilewright.families.hc_prenorm.cost import estimator
from tilewright.families.hc_prenorm.problem import Problem
from tilewright.selection.family import Family

UNIT = 8  # columns of an instruction; elements of k in 16 bytes of A


class _Prenorm(Family[Problem]):
    name = "hc_prenorm"
    problem = Problem
    estimator = staticmethod(estimator)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.normalize and problem.splits > 1:
            return f"splits is {problem.splits}; a norm needs the sum of all k"
        columns = record.config["tile"][1]
        if problem.n > columns:
            return f"n is {problem.n}; its tile has {columns} columns"
        for name, extent in (("n", problem.n), ("k", problem.k)):
            if extent % UNIT:
                return f"{name} is {extent}, not a multiple of {UNIT}"
        return None

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel's tile has columns that D lacks."""
        return bool(record.config["tile"][1] != problem.n)


FAMILY = _Prenorm()
