"""The `blockscaled_grouped_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import contiguous_extents
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, distinct_orders
from tilewright.families.blockscaled_grouped_gemm import cost
from tilewright.families.blockscaled_grouped_gemm.problem import SCALE_ROWS, Problem
from tilewright.selection import tcgen05_clusters
from tilewright.selection.family import Family
from tilewright.selection.fitting import blocks_of, misfit_contiguous, misfit_powers, misfit_room
from tilewright.selection.tcgen05_model import Tcgen05Model


class _BlockscaledGrouped(Family[Problem]):
    name = "blockscaled_grouped_gemm"
    problem = Problem
    settings = ("cluster", "raster", "swizzle")
    decisive = ("a", "b", "d")
    placement = ("zero_padding", "scale_begins")
    estimator = staticmethod(cost.estimator)
    variants = staticmethod(distinct_orders)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return Tcgen05Model.peak(kind, device)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.grouping == "ends" and not problem.scale_begins and problem.row_alignment % SCALE_ROWS:
            begins = f"scale factors of a group begin at multiples of {SCALE_ROWS} rows"
            return f"{begins}, groups of the problem at multiples of {problem.row_alignment}"
        return misfit_contiguous(record, contiguous_extents(problem, "tn"))

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or misfit_powers(tactic)
        return reason or tcgen05_clusters.misfit(tactic, record)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return tcgen05_clusters.NOT_TESTED

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return tcgen05_clusters.candidates(record)


FAMILY = _BlockscaledGrouped()
