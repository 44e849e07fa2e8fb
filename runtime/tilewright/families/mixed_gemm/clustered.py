"""Kernels of packed weights in clusters whose thread blocks share activations: their tactics."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm.problem import SILU_MUL, PackedProblem
from tilewright.formats.types import TMA_BYTES
from tilewright.selection import fitting
from tilewright.selection.kernels import Kernels

CLUSTERS = ("", "2x1", "4x1")  # that selection estimates
BALANCED_CLUSTERS = ("", "2x1")  # of thread blocks that multiply equally many stages

Q = TypeVar("Q", bound=PackedProblem)


def wider(tactic: Tactic) -> tuple[Tactic, ...]:
    """The tactic in clusters of eight: `Family.wider`."""
    return (replace(tactic, cluster="8x1"),) if tactic.splits == 1 else ()


class SharedActivations(Kernels[Q]):
    """What kernels of one product and of groups have in common."""

    settings: tuple[str, ...] = ("cluster", "raster", "swizzle")

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record)
        if reason is None and tactic.cluster:
            m, n = extents(tactic.cluster)
            if n != 1 or m & (m - 1) or m > 8:
                reason = f"cluster {tactic.cluster} is not 1x1, 2x1, 4x1 or 8x1: clusters share activations"
        return reason

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return fitting.misfit_room(fitting.blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Q) -> str | None:
        """All kernels of one group of warpgroups add products along k in one order."""
        if (groups := record.config["k_groups"]) > 1:
            return f"{groups} groups of warpgroups add products along k in another order than one does"
        return None

    def does_extra_work(self, record: KernelRecord, problem: Q) -> bool:
        """Whether a narrower tile would hold all rows of A."""
        return bool(problem.m <= record.config["tile"][1] - 8)


class Product(SharedActivations[Q]):
    """Kernels of one product. The k ranges of a tile belong to thread blocks of one cluster."""

    settings: tuple[str, ...] = ("cluster", "raster", "swizzle", "splits")

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return super().misfit_arguments(tactic, record) or fitting.misfit_blocks(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Q) -> str | None:
        return super().misfit_invariant(tactic, record, problem) or fitting.misfit_invariant_split(tactic)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Q) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(self, record: KernelRecord, problem: Q, device: DeviceProperties) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles, and splits of k that fill the SMs once."""
        tile_m, tile_n, _ = record.config["tile"]
        grid = -(-problem.n // tile_m), -(-problem.m // tile_n)  # the kernel's own rows and columns
        most = device.sm_count // (grid[0] * grid[1])
        splits = range(1, max(1, min(most, fitting.MOST_BLOCKS)) + 1)
        return fitting.in_clusters(record, grid, problem.k, splits, CLUSTERS)


class Balanced(SharedActivations[Q]):
    """Kernels of one product whose thread blocks multiply equally many stages of k
    (tilewright/mixed_gemm/balanced_phases.hpp). TMA stores their sums as they are, or silu(gate) * up."""

    def misfit_extents(self, record: KernelRecord, problem: Q) -> str | None:
        if problem.activation not in ("none", SILU_MUL):
            return f"it has no activation, not even {problem.activation}"
        if problem.alignment % TMA_BYTES:
            return f"it stores D by TMA only, to multiples of {TMA_BYTES} bytes, not of {problem.alignment}"
        return super().misfit_extents(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record)
        if reason is None and tactic.cluster not in BALANCED_CLUSTERS:
            reason = f"cluster {tactic.cluster} is not 1x1 or 2x1: clusters of two fill the SMs"
        return reason

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Q) -> str | None:
        return "where it cuts k depends on the number of tiles"

    def candidates(self, record: KernelRecord, problem: Q, device: DeviceProperties) -> tuple[Tactic, ...]:
        """Thread blocks alone, and pairs of them where there is more than a tile."""
        several = problem.n > record.config["tile"][0]
        return tuple(Tactic(record.name, cluster=cluster) for cluster in BALANCED_CLUSTERS[: 1 + several])
