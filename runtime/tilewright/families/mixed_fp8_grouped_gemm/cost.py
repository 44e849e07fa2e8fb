"""A model of how long a tactic of `mixed_fp8_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

128 of k of a tile take the clocks that the model of `mixed_fp8_gemm` gives them. The number of tiles is that
of the model of `mixed_grouped_gemm`. What lies between the main loops of two tiles is added.

Numbers are fitted to 155 times of 32 problems on an H200 (benchmarks/fit/fit_mixed_fp8_model.py; L2 cold,
random choices of experts; 8 to 128 experts, 16 to 16,384 tokens). The model's first tactic is behind the
fastest of those timed by 4.8 % (INT4), 1.0 % (MXFP4) and 0.5 % (MXFP4 with `fast_accum`) in geomean, 24 % at
worst.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_fp8_gemm import cost as dense
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_gemm.cost import norm
from tilewright.families.mixed_grouped_gemm.cost import tiles_across
from tilewright.selection.estimates import Estimate

HBM_SHARE = 0.893  # share of the rated bandwidth that is reached
L2_BYTES_PER_CLOCK = 289.0  # bytes that an SM gets
TILE_CLOCKS = 1580.0  # clocks between the main loops of two tiles
EPILOGUE_BYTES_PER_CLOCK = 4.05  # of 128 bytes for each row of a tile
START_CLOCKS = 6760.0  # clocks of launch, of reading the groups, the first stage's loads, and the last store
GROUPS_SHARE = 0.864  # share of a unit's clocks that two groups of warpgroups take
SUMS_CLOCKS = 768.0  # clocks of a tile whose groups of warpgroups add up their sums


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, _ = record.config["tile"]
    down, across = ceil(problem.n / tile_m), tiles_across(problem, tile_n)
    units, rows = ceil(problem.k / 128), min(tile_n, problem.rows)
    clock = device.clock_hz * dense.CLOCK_SHARE
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
    of_unit = dense.unit_clocks(record, problem.of_group)
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
