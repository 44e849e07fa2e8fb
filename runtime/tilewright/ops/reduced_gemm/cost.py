"""A model of how long a kernel of `reduced_gemm` takes on sm_90a: to rank tiles, not to predict a clock.

Every SM works on a part of one tile, all at the same parts of the batch. A launch takes about as long as the
longest of what it needs: HBM reads each operand once; L2 gives every tile its rows of A and B; the busiest
SM's tensor cores multiply its part. Then the parts' sums are written and read again, by a second kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.device import DeviceProperties
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.reduced_gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

# The hardware: wgmma multiplies 64x256x16 of 16 bits in 128 clocks (PTX ISA; NVIDIA's H100 white paper).
PRODUCTS_PER_CLOCK = 2048
CLOCK_SHARE = 0.886  # of the highest clock, as for lean dense kernels
L2_BYTES_PER_CLOCK = 6740  # to all SMs, as for lean dense kernels
OVERLAP = 3  # the norm in which the three add up, because they disturb each other
STAGE_CLOCKS = 35  # around a stage's barriers, as for lean dense kernels
START_CLOCKS = 6000  # two launches, the first stage's loads, and what lies between the kernels


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel."""
    tile_m, tile_n, tile_k = record.config["tile"]
    down, across = ceil(problem.m / tile_m), ceil(problem.n / tile_n)
    tiles, k_tiles = down * across, ceil(problem.k / tile_k) * problem.batch
    parts = max(1, min(device.sm_count // tiles, k_tiles))
    clock = device.clock_hz * CLOCK_SHARE
    waves = ceil(tiles * parts / device.sm_count)
    stages = ceil(k_tiles / parts) * waves
    math = stages * max(tile_m * tile_n * tile_k / PRODUCTS_PER_CLOCK, STAGE_CLOCKS) / clock
    read = tiles * k_tiles * (tile_m + tile_n) * tile_k * bytes_of(problem.a)
    fill = read / (L2_BYTES_PER_CLOCK * clock)
    hbm = problem.bytes / device.memory_bandwidth
    bounds = {"math": math, "fill": fill, "hbm": hbm}
    bound = max(bounds, key=lambda name: bounds[name])
    main_loop = sum(each**OVERLAP for each in bounds.values()) ** (1 / OVERLAP)
    sums = 2 * parts * tiles * tile_m * tile_n * 4 / (L2_BYTES_PER_CLOCK * clock)
    overhead = START_CLOCKS / clock + sums
    estimate = Estimate(main_loop + overhead, waves, bound, main_loop, overhead)
    return lambda tactic: estimate
