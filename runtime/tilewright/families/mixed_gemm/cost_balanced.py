"""A model of how long a balanced kernel of `mixed_gemm` takes: to rank tactics, not to predict a clock.

All thread blocks multiply equally many stages. What does not overlap is added: the launch, and the sums
that a thread block leaves to another one.
"""

from __future__ import annotations

from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm import cost, terms
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.families.mixed_gemm.terms import Terms

LEAVE_CLOCKS = 1200  # of sums that are left to another thread block, and of their reader
FEW_COLUMNS = 64  # of a tile: wider tiles are for many rows (kHasManyRows in mixed_gemm/balanced_phases.hpp)
COLUMN_CLOCKS = 70  # the same, of each column of a wider tile: medians of 931 times near the fastest
OTHER_CLOCKS = 500  # for each thread block, on average, whose sums are added


class Balanced(terms.Kernel):
    """A balanced kernel on a problem."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.model = cost.TileModel(record, problem, device, cost.NUMBERS)

    def terms(self, tactic: Tactic) -> Terms:
        model, cluster = self.model, max(extents(tactic.cluster)[0], 1)
        tiles = ceil(self.model.down / cluster) * ceil(self.problem.m / model.tile_n)  # of clusters
        clusters = min(self.device.clusters_at_once(cluster), tiles * model.k_tiles)
        stages = ceil(tiles * model.k_tiles / clusters)  # of each cluster
        math = stages * model.of_k_tile(cluster) / model.clock
        leave = LEAVE_CLOCKS if model.tile_n <= FEW_COLUMNS else COLUMN_CLOCKS * model.tile_n
        added = cost.START_CLOCKS + model.epilogue + leave + OTHER_CLOCKS * (model.k_tiles // stages)
        added += cost.CLUSTER_CLOCKS if cluster > 1 else 0
        main_loop = cost.norm(model.hbm, math, power=cost.NUMBERS.overlap)
        blocks = clusters * cluster
        return Terms(cluster, 1, blocks, blocks, stages, model.hbm, math, main_loop, added / model.clock)
