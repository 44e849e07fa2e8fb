"""The `reduced_gemm` family as selection sees it: kernels differ in their tiles."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import misfit_settings, plain
from tilewright.ops.reduced_gemm.cost import estimator
from tilewright.ops.reduced_gemm.problem import Problem
from tilewright.ops.reduced_gemm.words import WORDS

FAMILY: Family[Problem] = Family(
    words=WORDS,
    neighbour="k",
    decisive=("a",),
    misfit_options=lambda record, kind: None,
    misfit_extents=lambda record, problem: None,
    misfit_arguments=lambda tactic, record: misfit_settings(tactic, ()),
    candidates=lambda record, problem: (plain(record.name),),
    estimator=estimator,
    idle=lambda record, problem: False,
)
