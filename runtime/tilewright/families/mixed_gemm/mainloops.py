"""For each mainloop of `mixed_gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm import cost, cost_stream, learnt
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.selection.fitting import (
    MOST_BLOCKS,
    blocks_of,
    in_clusters,
    misfit_blocks,
    misfit_invariant_split,
    misfit_room,
    misfit_tiles_of_k,
    with_splits,
)
from tilewright.selection.kernels import Kernels

CLUSTERS = ("", "2x1", "4x1")


def tiles(record: KernelRecord, problem: Problem) -> tuple[int, int]:
    """The tiles of D, along n and along m: the kernel's own rows and columns."""
    tile_m, tile_n, _ = record.config["tile"]
    return -(-problem.n // tile_m), -(-problem.m // tile_n)


class Packed(Kernels[Problem]):
    """What kernels of both mainloops have in common."""

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        d = record.config["a"] if record.config["d"] == "same" else record.config["d"]
        return None if d == kind.d else f"its D is {d}, not {kind.d}"


class Wgmma(Packed):
    """Kernels for any number of rows (tilewright/mixed_gemm/mixed_gemm.hpp)."""

    settings = ("cluster", "raster", "swizzle", "splits")
    estimator = staticmethod(cost.estimator)
    refine = staticmethod(learnt.refine)

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
        """Without splits, all kernels of one group of warpgroups add products along k in one order."""
        if (groups := record.config["k_groups"]) > 1:
            return f"{groups} groups of warpgroups add products along k in another order than one does"
        return misfit_invariant_split(tactic)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles, and splits of k that fill the SMs once."""
        down, across = grid = tiles(record, problem)
        most = device.sm_count // (down * across)
        splits = range(1, max(1, min(most, MOST_BLOCKS)) + 1)
        return in_clusters(record, grid, problem.k, splits, CLUSTERS)

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether a narrower tile would hold all rows of A."""
        return bool(problem.m <= record.config["tile"][1] - 8)


class Stream(Packed):
    """Kernels for few rows (tilewright/mixed_gemm/stream.hpp)."""

    settings = ("splits",)
    estimator = staticmethod(cost_stream.estimator)
    refine = staticmethod(learnt.refine)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        rows = record.config["tile"][1]
        return f"it computes {rows} rows at most, not {problem.m}" if problem.m > rows else None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return super().misfit_arguments(tactic, record) or misfit_blocks(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        rows = record.config["tile"][1]
        return f"it divides k among warps, and more than {rows} rows are added in another order"

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Splits that leave a unit of k to every warp of a thread block, or one thread block."""
        warps = record.facts["threads"] // 32
        most = max(1, min(MOST_BLOCKS, -(-problem.k // (record.config["tile"][2] * warps))))
        return tuple(with_splits(record.name, "", splits) for splits in range(1, most + 1))


MAINLOOPS = {"wgmma": Wgmma(), "stream": Stream()}


def kernels_of(record: KernelRecord) -> Kernels[Problem]:
    """The mainloop of a kernel."""
    return MAINLOOPS[record.config["mainloop"]]
