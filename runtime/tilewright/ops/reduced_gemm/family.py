"""The `reduced_gemm` family as selection sees it: tiles, and clusters that share loads."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import Tactic, extents, misfit_settings
from tilewright.ops.reduced_gemm.cost import estimator
from tilewright.ops.reduced_gemm.problem import Problem
from tilewright.ops.reduced_gemm.words import WORDS
from tilewright.table import KernelRecord

MOST_BLOCKS = 8  # of a cluster
CLUSTERS = ("", "2x1", "1x2", "2x2", "1x4", "4x1")  # that a first selection weighs


def misfit_arguments(tactic: Tactic, record: KernelRecord) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    reason = misfit_settings(tactic, ("cluster",))
    if reason is not None:
        return reason
    m, n = cluster_of(tactic)
    if any(side & (side - 1) for side in (m, n)) or m * n > MOST_BLOCKS:
        return f"cluster {m}x{n} is no powers of two, up to {MOST_BLOCKS} thread blocks"
    return None


def cluster_of(tactic: Tactic) -> tuple[int, int]:
    """The thread blocks of the tactic's cluster along m and n."""
    m, n = extents(tactic.cluster)
    return max(m, 1), max(n, 1)


def candidates(record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
    """What a first selection weighs: clusters no larger than the grid of tiles."""
    return tuple(_candidates(record, problem))


def _candidates(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    tile_m, tile_n, _ = record.config["tile"]
    for cluster in CLUSTERS:
        tactic = _tactic(record.name, cluster)
        m, n = cluster_of(tactic)
        if m <= -(-problem.m // tile_m) and n <= -(-problem.n // tile_n):
            yield tactic


@functools.lru_cache(maxsize=1 << 12)
def _tactic(kernel: str, cluster: str) -> Tactic:
    return Tactic(kernel, cluster=cluster)


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
