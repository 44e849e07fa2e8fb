"""The `scale_columns` family as selection sees it: one kernel does all."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import misfit_settings, plain
from tilewright.ops.scale_columns.problem import Problem
from tilewright.ops.scale_columns.words import WORDS

FAMILY: Family[Problem] = Family(
    words=WORDS,
    neighbour="m",
    decisive=(),
    misfit_options=lambda record, kind: None,
    misfit_extents=lambda record, problem: None,
    misfit_arguments=lambda tactic, record: misfit_settings(tactic, ()),
    candidates=lambda record, problem: (plain(record.name),),
    estimator=None,
    idle=lambda record, problem: False,
    placement=("grouping", "group_count", "alignment", "block", "row_major"),
)
