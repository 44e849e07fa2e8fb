"""A model of how long a tactic of `mixed_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

A tile is modelled as in `mixed_gemm`, with numbers of its own where three warps that load, and sums that do
not wait for the stages, change them. The number of tiles depends on the rows of each group, which only the
device knows: the model assumes that groups have rows where each row falls to a group at random, and those
a number that is distributed as a router distributes it, some groups being more likely than others.

Numbers are fitted to 280 times on an H200 (L2 cold, random choices of experts; four layers, 1 to 16,384
tokens): the model's first tactic is 4.6 % behind the fastest in geomean of 14 problems, 20 % at worst.
The times are of kernels at_will. Those that replaced some are estimated alike: with EARLY_SHARE, tiles of few
columns would be chosen where they take 1.2 times as long (256 tokens, 8 experts).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, exp, sqrt

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm import terms
from tilewright.families.mixed_gemm.cost import PIECE, Numbers, TileModel, norm
from tilewright.families.mixed_gemm.terms import UNIT_K, Terms
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem, Problem

SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # shares of the mean number of rows that groups have
QUANTILES = (-1.64, -1.04, -0.67, -0.39, -0.13, 0.13, 0.39, 0.67, 1.04, 1.64)  # of a normal distribution
UNEVEN = 0.5  # standard deviation of the logarithm of the rows that a router gives to a group, on average
NUMBERS = Numbers(
    wgmma_clocks=3.5, overlap_piece=1.99, latency=2.06, box_clocks=49, l2_bytes_per_clock=56, hbm_share=0.744,
    epilogue_bytes_per_clock=4.64, overlap=4, schedules=False,
)  # fmt: skip
START_CLOCKS = 9020  # clocks of launch, of reading the groups, the first stage's loads, and the last store
SUMS_CLOCKS = 371  # clocks of a tile whose groups of warpgroups add up their sums


def tiles_across(problem: GroupedProblem, rows: int) -> float:
    """The tiles of `rows` rows of all groups, whose numbers of rows are SPREAD."""
    return _tiles(problem, rows, lambda mean: SPREAD)


def routed_tiles(problem: GroupedProblem, rows: int) -> float:
    """The same where a router chooses the groups of each row."""
    return _tiles(problem, rows, _routed)


def _routed(mean: float) -> list[float]:
    """Shares of the mean number of rows that groups have: by chance, and as some are chosen more often."""
    deviation = sqrt(1 / mean + UNEVEN**2)
    return [exp(quantile * deviation - deviation**2 / 2) for quantile in QUANTILES]


def _tiles(problem: GroupedProblem, rows: int, spread: Callable[[float], Sequence[float]]) -> float:
    groups = problem.groups_read
    mean = problem.rows / groups
    if problem.grouping == "row_index" and problem.row_alignment % rows:
        # A tile is computed once for each group that has rows in it.
        return ceil(problem.m / rows) + groups - 1
    shares = spread(mean)
    return groups * sum(ceil(max(1.0, mean * share) / rows) for share in shares) / len(shares)


class Wgmma(terms.Kernel):
    """A kernel of the mainloop `wgmma` on a problem."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.model = TileModel(record, problem, device, NUMBERS)
        self.across = routed_tiles(problem, self.model.tile_n)
        self.epilogue = self.model.epilogue + SUMS_CLOCKS * (record.config["k_groups"] > 1)

    def terms(self, tactic: Tactic) -> Terms:
        model = self.model
        cluster = max(extents(tactic.cluster)[0], 1)
        at_once = max(1, self.device.clusters_at_once(cluster))
        blocks = ceil(ceil(model.down / cluster) * self.across)
        waves = ceil(blocks / at_once)
        of_tile = model.k_tiles * model.of_k_tile(cluster) + (self.epilogue if waves > 1 else 0.0)
        math, added = waves * of_tile / model.clock, (START_CLOCKS + self.epilogue) / model.clock
        units = ceil(model.k_tiles * model.pieces * PIECE / UNIT_K)
        main_loop = norm(model.hbm, math, power=NUMBERS.overlap)
        return Terms(
            cluster, 1, blocks * cluster, at_once * cluster, units, model.hbm, math, main_loop, added
        )
