"""The `hc_prenorm` family as selection sees it."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import Tactic, misfit_settings, plain
from tilewright.ops.hc_prenorm.cost import estimator
from tilewright.ops.hc_prenorm.problem import Problem
from tilewright.ops.hc_prenorm.words import WORDS
from tilewright.table import KernelRecord

UNIT = 8  # elements of n, of an instruction; of k, 16 bytes of A


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel takes the problem's extents, else the reason."""
    columns = record.config["tile"][1]
    if problem.n > columns:
        return f"n is {problem.n}; its tile has {columns} columns"
    for name, extent in (("n", problem.n), ("k", problem.k)):
        if extent % UNIT:
            return f"{name} is {extent}, not a multiple of {UNIT}"
    return None


def misfit_arguments(tactic: Tactic, record: KernelRecord) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    return misfit_settings(tactic, ())


FAMILY: Family[Problem] = Family(
    words=WORDS,
    neighbour="m",
    decisive=(),
    misfit_options=lambda record, kind: None,
    misfit_extents=misfit_extents,
    misfit_arguments=misfit_arguments,
    candidates=lambda record, problem: (plain(record.name),),
    estimator=estimator,
    idle=lambda record, problem: record.config["tile"][1] != problem.n,
)
