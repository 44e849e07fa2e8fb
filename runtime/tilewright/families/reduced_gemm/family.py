"""The `reduced_gemm` family as selection sees it: tiles, and clusters that share loads."""

from __future__ import annotations

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, misfit_settings
from tilewright.families.reduced_gemm.cost import estimator
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.selection.family import Family
from tilewright.selection.fitting import (
    MOST_BLOCKS,
    blocks_of,
    cluster_of,
    in_clusters,
    misfit_room,
    own_tiles,
)


class _Reduced(Family[Problem]):
    name = "reduced_gemm"
    problem = Problem
    neighbour = "k"
    decisive = ("a",)
    estimator = staticmethod(estimator)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = misfit_settings(tactic, ("cluster",))
        if reason is not None:
            return reason
        m, n = cluster_of(tactic)
        if any(side & (side - 1) for side in (m, n)) or m * n > MOST_BLOCKS:
            return f"cluster {m}x{n} is no powers of two, up to {MOST_BLOCKS} thread blocks"
        return None

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def candidates(self, record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
        """What a first selection weighs: clusters no larger than the grid of tiles."""
        return in_clusters(record, own_tiles(record, problem.m, problem.n))


FAMILY = _Reduced()
