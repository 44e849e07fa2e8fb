"""The `reduced_gemm` family as selection sees it: tiles, and clusters that share loads."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.common.fitting import MOST_BLOCKS, cluster_of, in_clusters
from tilewright.ops.common.tactics import Tactic, misfit_settings
from tilewright.ops.reduced_gemm.cost import estimator
from tilewright.ops.reduced_gemm.problem import Problem
from tilewright.ops.reduced_gemm.words import WORDS
from tilewright.table import KernelRecord


def misfit_arguments(tactic: Tactic, record: KernelRecord) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    reason = misfit_settings(tactic, ("cluster",))
    if reason is not None:
        return reason
    m, n = cluster_of(tactic)
    if any(side & (side - 1) for side in (m, n)) or m * n > MOST_BLOCKS:
        return f"cluster {m}x{n} is no powers of two, up to {MOST_BLOCKS} thread blocks"
    return None


def candidates(record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
    """What a first selection weighs: clusters no larger than the grid of tiles."""
    tile_m, tile_n, _ = record.config["tile"]
    return tuple(in_clusters(record, (-(-problem.m // tile_m), -(-problem.n // tile_n))))


FAMILY: Family[Problem] = Family(
    words=WORDS,
    neighbour="k",
    decisive=("a",),
    misfit_options=lambda record, kind: None,
    misfit_extents=lambda record, problem: None,
    misfit_arguments=misfit_arguments,
    candidates=candidates,
    estimator=estimator,
    idle=lambda record, problem: False,
)
