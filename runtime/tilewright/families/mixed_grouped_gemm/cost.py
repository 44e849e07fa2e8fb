"""A model of how long a tactic of `mixed_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

A tile is modelled as in `mixed_gemm`, with numbers of its own where three warps that load, and sums that do
not wait for the stages, change them. The number of tiles depends on the rows of each group, which only the
device knows: the model assumes that groups have rows where each row falls to a group at random, and those
equally many, give or take 30 %.

Numbers are fitted to 280 times on an H200 (L2 cold, random choices of experts; four layers, 1 to 16,384
tokens): the model's first tactic is 4.6 % behind the fastest in geomean of 14 problems, 20 % at worst.
The times are of kernels at_will. Those that replaced some are estimated alike: with EARLY_SHARE, tiles of few
columns would be chosen where they take 1.2 times as long (256 tokens, 8 experts).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm.cost import Numbers, TileModel
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem, Problem
from tilewright.selection.estimates import Estimate

SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # shares of the mean number of rows that groups have
NUMBERS = Numbers(
    wgmma_clocks=3.5, overlap_piece=1.99, latency=2.06, box_clocks=49, l2_bytes_per_clock=56, hbm_share=0.744,
    epilogue_bytes_per_clock=4.64, overlap=4, schedules=False,
)  # fmt: skip
START_CLOCKS = 9020  # clocks of launch, of reading the groups, the first stage's loads, and the last store
SUMS_CLOCKS = 371  # clocks of a tile whose groups of warpgroups add up their sums


def tiles_across(problem: GroupedProblem, rows: int) -> float:
    """The tiles of `rows` rows of all groups."""
    groups = problem.groups_read
    mean = problem.rows / groups
    if problem.grouping == "row_index" and problem.row_alignment % rows:
        # A tile is computed once for each group that has rows in it.
        return ceil(problem.m / rows) + groups - 1
    return groups * sum(ceil(mean * share / rows) for share in SPREAD) / len(SPREAD)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    model = TileModel(record, problem, device, NUMBERS)
    across = tiles_across(problem, model.tile_n)
    epilogue = model.epilogue + SUMS_CLOCKS * (record.config["k_groups"] > 1)

    def weigh(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        at_once = max(1, device.clusters_at_once(cluster))
        waves = ceil(ceil(model.down / cluster) * across / at_once)
        of_tile = model.k_tiles * model.of_k_tile(cluster) + (epilogue if waves > 1 else 0.0)
        return model.estimate(waves, of_tile, START_CLOCKS + epilogue)

    return weigh
