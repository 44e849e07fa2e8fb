"""The `reduced_gemm` family as selection sees it: tiles, and clusters that share loads."""

from __future__ import annotations

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, plain
from tilewright.families.reduced_gemm.cost import estimator
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.selection.family import Family
from tilewright.selection.fitting import (
    blocks_of,
    in_clusters,
    misfit_blocks,
    misfit_powers,
    misfit_room,
    own_tiles,
)


class _Reduced(Family[Problem]):
    name = "reduced_gemm"
    problem = Problem
    neighbour = "k"
    settings = ("cluster",)
    decisive = ("a",)
    estimator = staticmethod(estimator)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        if tactic.cluster and not has_tensor_core(record.arch, WGMMA):
            return "it runs without clusters"
        reason = super().misfit_arguments(tactic, record) or misfit_powers(tactic)
        return reason or misfit_blocks(tactic, record)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles; kernels of mma.sync have none."""
        if not has_tensor_core(record.arch, WGMMA):
            return (plain(record.name),)
        return in_clusters(record, own_tiles(record, problem.m, problem.n))


FAMILY = _Reduced()
