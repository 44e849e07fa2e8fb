"""A model of how long a kernel of `reduced_gemm` takes on sm_90a: to rank tiles, not to predict a clock.

Every SM works on a part of one tile, all at the same parts of the batch. A launch takes about as long as the
longest of what it needs: HBM reads each operand once, and L2 what several tiles read; the busiest SM's tensor
cores multiply its part. Then the clusters' sums are written and read again, by a second kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.selection.estimates import Estimate

# The hardware: wgmma multiplies 64x256x16 of 16 bits in 128 clocks (PTX ISA; NVIDIA's H100 white paper).
PRODUCTS_PER_CLOCK = 2048
CLOCK_SHARE = 0.886  # of the highest clock, as for lean dense kernels
OVERLAP = 4  # the norm in which the two add up, because they disturb each other
STAGE_CLOCKS = 35  # around a stage's barriers, as for lean dense kernels

# Of 250 times on an H200: (128, 384, 128), (256, 256, 256), (384, 128, 384), 129 and 4096 times.
AGAIN_SHARE = 0.38  # of what HBM takes for a byte, that L2 takes for one that another thread block has read
SUMS_BYTES_PER_CLOCK = 2600  # written, and read again
START_CLOCKS = 9000  # two launches, the first stage's loads, and what lies between the kernels
CLUSTER_CLOCKS = 1200  # of barriers of a cluster, and its start


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel."""
    tile_m, tile_n, tile_k = record.config["tile"]
    down, across = ceil(problem.m / tile_m), ceil(problem.n / tile_n)
    k_tiles = ceil(problem.k / tile_k) * problem.batch
    clock = device.clock_hz * CLOCK_SHARE
    hbm = problem.bytes / device.memory_bandwidth

    def weigh(tactic: Tactic) -> Estimate:
        m, n = (max(side, 1) for side in extents(tactic.cluster))
        blocks = ceil(down / m) * ceil(across / n)
        at_once = max(1, device.clusters_at_once(m * n))  # 0: `misfit_device` refuses it
        parts = max(1, min(at_once // blocks, k_tiles))
        waves = ceil(blocks * parts / at_once)
        stages = ceil(k_tiles / parts) * waves
        math = stages * max(tile_m * tile_n * tile_k / PRODUCTS_PER_CLOCK, STAGE_CLOCKS) / clock
        # Multicast: a cluster reads each row once.
        again = blocks * (m * tile_m + n * tile_n) / (problem.m + problem.n) - 1
        bounds = {"math": math, "hbm": hbm * (1 + AGAIN_SHARE * max(again, 0.0))}
        bound = max(bounds, key=lambda name: bounds[name])
        main_loop = sum(each**OVERLAP for each in bounds.values()) ** (1 / OVERLAP)
        sums = 2 * parts * blocks * m * n * tile_m * tile_n * 4 / SUMS_BYTES_PER_CLOCK
        overhead = (START_CLOCKS + sums + (CLUSTER_CLOCKS if m * n > 1 else 0)) / clock
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
