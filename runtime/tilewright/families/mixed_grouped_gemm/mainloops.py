"""For each mainloop of `mixed_grouped_gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_grouped_gemm import cost, cost_stream
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.fitting import blocks_of, in_clusters, misfit_room
from tilewright.selection.kernels import Kernels

CLUSTERS = ("", "2x1", "4x1")


class Wgmma(Kernels[Problem]):
    """Kernels for any number of rows (tilewright/mixed_grouped_gemm/mixed_grouped_gemm.hpp)."""

    settings: tuple[str, ...] = ("cluster", "raster", "swizzle")
    estimator = staticmethod(cost.estimator)

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


class Stream(Wgmma):
    """Kernels for few rows of a group (tilewright/mixed_grouped_gemm/stream.hpp), without clusters."""

    settings = ("raster", "swizzle")
    estimator = staticmethod(cost_stream.estimator)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return "it divides k among warps, and kernels for more rows add products in another order"

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return (Tactic(record.name),)


MAINLOOPS = {"wgmma": Wgmma(), "stream": Stream()}


def kernels_of(record: KernelRecord) -> Kernels[Problem]:
    """The mainloop of a kernel."""
    return MAINLOOPS[record.config["mainloop"]]
