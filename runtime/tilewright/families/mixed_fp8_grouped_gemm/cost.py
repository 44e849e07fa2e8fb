"""A model of how long a tactic of `mixed_fp8_grouped_gemm` takes on sm_90a: to rank tactics, not to predict a
clock.

128 of k of a tile take the clocks that the model of `mixed_fp8_gemm` gives them. The number of tiles is that
of the model of `mixed_grouped_gemm`, whose numbers for launch, loads and epilogue are taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_fp8_gemm.cost import CLOCK_SHARE, unit_clocks
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_gemm.cost import norm
from tilewright.families.mixed_grouped_gemm.cost import NUMBERS, START_CLOCKS, tiles_across
from tilewright.selection.estimates import Estimate


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, _ = record.config["tile"]
    down, across = ceil(problem.n / tile_m), tiles_across(problem, tile_n)
    units, rows = ceil(problem.k / 128), min(tile_n, problem.rows)
    clock = device.clock_hz * CLOCK_SHARE
    hbm = problem.bytes / (device.memory_bandwidth * NUMBERS.hbm_share)
    of_unit = unit_clocks(record, problem.of_group)
    packed = problem.packed_bytes / problem.slices / units * tile_m / 64
    epilogue = rows * 128 / NUMBERS.epilogue_bytes_per_clock

    def weigh(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        at_once = max(1, device.clusters_at_once(cluster))
        waves = ceil(ceil(down / cluster) * across / at_once)
        loads = (packed + rows * 128 / cluster) / NUMBERS.l2_bytes_per_clock
        of_tile = units * norm(of_unit, loads) + (epilogue if waves > 1 else 0.0)
        bounds = {"hbm": hbm, "math": waves * of_tile / clock}
        main_loop, overhead = max(bounds.values()), (START_CLOCKS + epilogue) / clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
