"""A model of how long a tactic of `mixed_fp8_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

128 of k of a tile take the clocks that the model of `mixed_fp8_gemm` gives them, also of one that has few
rows and is multiplied by fewer columns. Each row falls to a group at random. What lies between the main loops
of two tiles is added.

Numbers are fitted to 155 times of 32 problems on an H200 (benchmarks/fit/fit_mixed_fp8_model.py; L2 cold,
random choices of experts; 8 to 128 experts, 16 to 16,384 tokens), TILE_CLOCKS and L2_BYTES_PER_CLOCK to 40
problems of 1,024 and 16,384 tokens: of the 16 with today's kernels the model's first tactic is 0.7 % behind
the fastest in geomean, 2.6 % at worst.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_fp8_gemm import cost as dense
from tilewright.families.mixed_fp8_gemm.config import MOST_SUMS_IN_TURN, TURN_WIDTHS
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_gemm.cost import norm
from tilewright.families.mixed_grouped_gemm.cost import tiles_across
from tilewright.selection.estimates import Estimate

QUANTILES = (-1.64, -1.04, -0.67, -0.39, -0.13, 0.13, 0.39, 0.67, 1.04, 1.64)  # of a normal distribution
HBM_SHARE = 0.893  # share of the rated bandwidth that is reached
L2_BYTES_PER_CLOCK = 53.0  # bytes that an SM gets
TILE_CLOCKS = 300.0  # clocks between the main loops of two tiles
EPILOGUE_BYTES_PER_CLOCK = 4.05  # of 128 bytes for each row of a tile
START_CLOCKS = 6760.0  # clocks of launch, of reading the groups, the first stage's loads, and the last store
GROUPS_SHARE = 0.864  # share of a unit's clocks that two groups of warpgroups take
SUMS_CLOCKS = 768.0  # clocks of a tile whose groups of warpgroups add up their sums


def columns_for(record: KernelRecord, rows: int) -> int:
    """The columns by which a tile with so many rows is multiplied (mixed_fp8_grouped_gemm/kernel.hpp)."""
    tile_n, schedule = int(record.config["tile"][1]), record.config["schedule"]
    if schedule not in ("quick", "parts_in_turn"):
        return tile_n
    part = tile_n if schedule == "quick" else parts_of(tile_n)
    half = tile_n // 2 if schedule == "quick" and tile_n >= 192 else half_width(part)
    return half if rows <= half else part if rows <= part else tile_n


def half_width(width: int) -> int:
    """About half of so many columns (tilewright/mixed_fp8_gemm/half_width.hpp)."""
    return 64 if width >= 128 else 48 if width >= 96 else 32


def parts_of(tile_n: int) -> int:
    """The columns of a part of the schedule parts_in_turn."""
    return max(part for part in TURN_WIDTHS if tile_n % part == 0 and tile_n + part <= MOST_SUMS_IN_TURN)


class Tiles(NamedTuple):
    """The tiles of rows of all groups."""

    across: float
    of_unit: float  # clocks of 128 of k, in the mean


def tiles_of(record: KernelRecord, problem: Problem) -> Tiles:
    """Tiles where each row falls to a group at random."""
    tile_n, groups = int(record.config["tile"][1]), problem.groups_read
    whole, mean = dense.unit_clocks(record, problem.of_group), problem.rows / problem.groups_read
    if problem.grouping == "row_index" and problem.row_alignment % tile_n:
        return Tiles(tiles_across(problem, tile_n), whole)
    clocks, tiles = 0.0, 0
    for quantile in QUANTILES:
        full, rest = divmod(max(1, round(mean + quantile * sqrt(mean))), tile_n)
        clocks, tiles = clocks + full * whole, tiles + full + (rest > 0)
        if rest:
            clocks += dense.unit_clocks(record, problem.of_group, columns_for(record, rest))
    return Tiles(groups * tiles / len(QUANTILES), clocks / tiles)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, _ = record.config["tile"]
    down = ceil(problem.n / tile_m)
    units, rows = ceil(problem.k / 128), min(tile_n, problem.rows)
    clock = device.clock_hz * dense.CLOCK_SHARE
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
    across, of_unit = tiles_of(record, problem)
    between = TILE_CLOCKS
    if record.config["k_groups"] > 1:
        of_unit, between = of_unit * GROUPS_SHARE, between + SUMS_CLOCKS
    packed = problem.packed_bytes / problem.slices / units * tile_m / 64
    epilogue = rows * 128 / EPILOGUE_BYTES_PER_CLOCK

    def weigh(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        at_once = max(1, device.clusters_at_once(cluster))
        waves = ceil(ceil(down / cluster) * across / at_once)
        loads = (packed + rows * 128 / cluster) / L2_BYTES_PER_CLOCK
        of_tile = units * norm(of_unit, loads) + (epilogue + between if waves > 1 else 0.0)
        bounds = {"hbm": hbm, "math": waves * of_tile / clock}
        main_loop, overhead = max(bounds.values()), (START_CLOCKS + epilogue) / clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
