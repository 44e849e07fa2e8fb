"""A model of how long a tactic of `mixed_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

A tile is modelled as in `mixed_gemm`, with numbers of its own where three warps that load, and sums that do
not wait for the stages, change them. The number of tiles depends on the rows of each group, which only the
device knows: the model assumes that groups have rows where each row falls to a group at random, and those
equally many, give or take 30 %.

Numbers are fitted to 280 times on an H200 (L2 cold, random choices of experts; four layers, 1 to 16,384
tokens): the model's first tactic is 4.6 % behind the fastest in geomean of 14 problems, 20 % at worst.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm.cost import (
    CLOCK_SHARE,
    DECODE_CLOCKS,
    PIECE,
    SCALE_BYTES,
    STEPS,
    norm,
)
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.estimates import Estimate

SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # shares of the mean number of rows that groups have
# As in `mixed_gemm`, whose names they have.
WGMMA_CLOCKS = 3.5
OVERLAP_PIECE = 1.99
LATENCY = 2.06
BOX_CLOCKS = 49
L2_BYTES_PER_CLOCK = 56
HBM_SHARE = 0.744
START_CLOCKS = 9020  # with reading the groups
EPILOGUE_BYTES_PER_CLOCK = 4.64
SUMS_CLOCKS = 371  # clocks of a tile whose groups of warpgroups add up their sums


def tiles_across(problem: Problem, rows: int) -> float:
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
    tile_m, tile_n, tile_k = record.config["tile"]
    groups, pieces = record.config["k_groups"], tile_k // PIECE
    down, across = ceil(problem.n / tile_m), tiles_across(problem, tile_n)
    slices = tile_m // PIECE
    rows = min(tile_n, problem.m)
    warpgroups = record.facts["threads"] // 128 - 1
    k_tiles = ceil(problem.k / 128) * (128 // tile_k)
    clock = device.clock_hz * CLOCK_SHARE
    decoding = DECODE_CLOCKS[FORMATS[problem.weight_format][0]]
    wgmmas = STEPS * (tile_n / 2 + WGMMA_CLOCKS)
    piece = (decoding**OVERLAP_PIECE + wgmmas**OVERLAP_PIECE) ** (1 / OVERLAP_PIECE)
    math = slices * max(piece, (LATENCY * decoding + wgmmas) / warpgroups)
    epilogue = tile_m * rows * 2 / EPILOGUE_BYTES_PER_CLOCK / warpgroups + SUMS_CLOCKS * (groups > 1)
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)

    def weigh(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        at_once = max(1, device.clusters_at_once(cluster))
        waves = ceil(ceil(down / cluster) * across / at_once)
        loads = (tile_m * (PIECE // 2 + SCALE_BYTES) + rows * 2 * PIECE / cluster) / L2_BYTES_PER_CLOCK
        of_piece = norm(math, loads) + BOX_CLOCKS / pieces
        of_tile = k_tiles * pieces * of_piece + (epilogue if waves > 1 else 0.0)
        bounds = {"hbm": hbm, "math": waves * of_tile / clock}
        main_loop = norm(*bounds.values())
        overhead = (START_CLOCKS + epilogue) / clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
