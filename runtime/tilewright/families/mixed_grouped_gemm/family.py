"""The `mixed_grouped_gemm` family as selection sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_rate
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_grouped_gemm import cost
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.family import Family
from tilewright.selection.fitting import blocks_of, in_clusters, misfit_room

CLUSTERS = ("", "2x1", "4x1")


class _MixedGrouped(Family[Problem]):
    name = "mixed_grouped_gemm"
    problem = Problem
    settings = ("cluster", "raster", "swizzle")
    decisive = ("a", "weight_format")
    estimator = staticmethod(cost.estimator)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return hopper_rate(16, device)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record)
        if reason is None and tactic.cluster:
            m, n = extents(tactic.cluster)
            if n != 1 or m & (m - 1) or m > 8:
                reason = f"cluster {tactic.cluster} is not 1x1, 2x1, 4x1 or 8x1: clusters share activations"
        return reason

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """All kernels of one group of warpgroups add products along k in one order."""
        if (groups := record.config["k_groups"]) > 1:
            return f"{groups} groups of warpgroups add products along k in another order than one does"
        return None

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than a group's tiles along n."""
        return in_clusters(record, (-(-problem.n // record.config["tile"][0]), 1), clusters=CLUSTERS)

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether a narrower tile would hold all rows of a group."""
        rows = problem.m if problem.own_rows else -(-problem.rows // problem.groups)
        return bool(rows <= record.config["tile"][1] - 8)

    def wider(self, tactic: Tactic) -> tuple[Tactic, ...]:
        """The tactic in clusters of eight."""
        return (replace(tactic, cluster="8x1"),)


FAMILY = _MixedGrouped()
