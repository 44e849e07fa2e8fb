"""The `mixed_fp8_gemm` family as selection sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_fp8_gemm import cost
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.selection.family import Family
from tilewright.selection.fitting import (
    MOST_BLOCKS,
    blocks_of,
    in_clusters,
    misfit_blocks,
    misfit_invariant_split,
    misfit_room,
    misfit_tiles_of_k,
)

CLUSTERS = ("", "2x1", "4x1")


def misfit_sums(record: KernelRecord, kind: Any) -> str | None:
    """Why a kernel's sums are not those that a problem asks for. `fast_accum` is not among `decisive`: rows
    leave a False out, and are found by their text."""
    if record.config["fast_accum"] == kind.fast_accum:
        return None
    return "its sums stay in the tensor core" if record.config["fast_accum"] else "it promotes sums"


class _MixedFp8(Family[Problem]):
    name = "mixed_fp8_gemm"
    problem = Problem
    settings = ("cluster", "raster", "swizzle", "splits")
    decisive = ("a", "d", "weight_format")
    estimator = staticmethod(cost.estimator)
    peak = staticmethod(hopper_peak)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record)
        if reason is None and tactic.cluster:
            m, n = extents(tactic.cluster)
            if n != 1 or m & (m - 1):
                reason = f"cluster {tactic.cluster} is not 1x1, 2x1, 4x1 or 8x1: clusters share activations"
        return reason or misfit_blocks(tactic, record)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """Without splits, all kernels add products along k in one order."""
        return misfit_invariant_split(tactic)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles, and splits of k that fill the SMs once."""
        tile_m, tile_n, _ = record.config["tile"]
        grid = -(-problem.n // tile_m), -(-problem.m // tile_n)
        most = device.sm_count // (grid[0] * grid[1])
        splits = range(1, max(1, min(most, MOST_BLOCKS)) + 1)
        return in_clusters(record, grid, problem.k, splits, CLUSTERS)

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether a narrower tile would hold all rows of A."""
        return bool(problem.m <= record.config["tile"][1] - 8)

    def wider(self, tactic: Tactic) -> tuple[Tactic, ...]:
        """The tactic in clusters of eight."""
        return (replace(tactic, cluster="8x1"),) if tactic.splits == 1 else ()


FAMILY = _MixedFp8()
