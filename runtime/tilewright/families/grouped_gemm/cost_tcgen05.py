"""A model of CUTLASS's kernels of groups on tcgen05: that of `selection/tcgen05_model.py`, of a batch of
products with the expected rows of a group, after the kernel that converts the scale factors.

Nobody has timed these kernels. The numbers of a product are those of block-scaled kernels without groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledBatch
from tilewright.families.gemm.problem import Problem as Batch
from tilewright.families.grouped_gemm.cost import group_rows
from tilewright.families.grouped_gemm.problem import MX_FORMATS, PACKED_SCALES, Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.tcgen05_model import Tcgen05Model

MMA_BLOCK = 32  # elements of k that share a factor in the 128x4 layout
# Clocks in which a thread block replaces its tensor maps where a tile is of another group than the tile
# before: a guess, two trips to L2 and back. CUTLASS loads the first stage of that tile behind them.
MAPS_CLOCKS = 1000
# Clocks in which the epilogue's warps scale and add a column of sums of 128 of k: a multiplication and an
# addition of each row, and what they read of tensor memory. A guess.
PROMOTION_CLOCKS = 2


def batch_of(problem: Problem) -> BlockscaledBatch | Batch:
    """The batch of products with the expected rows of a group, or with its share of k."""
    if problem.grouping == "k_sizes":
        problem, rows = replace(problem, k=ceil(problem.k / problem.groups)), problem.m
    else:
        rows = max(1, group_rows(problem))
    if problem.scales in PACKED_SCALES:
        formats = (MX_FORMATS[problem.a], MX_FORMATS[problem.b])
        return BlockscaledBatch(rows, problem.n, problem.k, problem.groups, *formats, problem.d)
    return Batch(rows, problem.n, problem.k, problem.groups, problem.a, problem.b, problem.d)


class GroupsOnTcgen05(Tcgen05Model):
    """A kernel of sm_100 on products of groups."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        config = {**record.config, "cluster": "dynamic", "scheduler": "data_parallel"}
        packed = problem.scales in PACKED_SCALES
        facts = {**record.facts, "block": MMA_BLOCK} if packed else record.facts
        super().__init__(record._replace(config=config, facts=facts), batch_of(problem), device)
        self.tile_clocks = MAPS_CLOCKS
        self.promotion = 0 if packed or not problem.scaled else PROMOTION_CLOCKS * self.tile_n
        self.seconds += self.LAUNCH_SECONDS
        if packed:
            self.seconds += self.converted(problem) / device.memory_bandwidth / self.MEMORY_SHARE

    def math(self, cluster: tuple[int, int]) -> float:
        """The chain, and the warps that scale sums beside it: the slower of the two determines the time."""
        return max(super().math(cluster), float(self.promotion))

    @staticmethod
    def converted(problem: Problem) -> float:
        """Bytes of packed scale factors that the first kernel reads and writes."""
        matrices_b = 1 if problem.grouping == "k_sizes" else problem.groups
        rows = problem.m * (problem.groups if problem.own_rows else 1) + problem.n * matrices_b
        return float(rows * problem.k * (1 / problem.scale_block + 1 / MMA_BLOCK))


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel."""
    return GroupsOnTcgen05(record, problem, device).weigh
