"""A model of how long a kernel of `reduced_gemm` takes on sm_90a: to rank tiles, not to predict a clock.

Each SM works on a range of k of one tile, counted over the batch; all SMs are at the same range. A launch
takes about as long as the slower of two: memory (HBM delivers each operand once; L2 delivers what several
tiles read), and the busiest SM's tensor cores. Then the sums are written, and a second kernel reads and adds
them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.reduced_gemm import cost_mma
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.selection.estimates import Estimate

CLOCK_SHARE = 0.886  # share of the highest clock at which clocks count, as for gemm's lean kernels
OVERLAP = 4  # p of the p-norm that combines the tensor cores and HBM, because they disturb each other
STAGE_CLOCKS = 35  # clocks of a stage's barriers, as for gemm's lean kernels

# Fitted to 250 times on an H200: (128, 384, 128), (256, 256, 256), (384, 128, 384), batches of 129 and 4096.
REREAD_SHARE = 0.38  # time to read a byte from L2 over the time to read it from HBM
SUMS_BYTES_PER_CLOCK = 2600  # bytes of sums written, and read again, in a clock
START_CLOCKS = 9000  # clocks of two launches, of the first stage's loads, and between the kernels
CLUSTER_CLOCKS = 1200  # clocks of a cluster's start and barriers


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    if not has_tensor_core(record.arch, WGMMA):
        return cost_mma.estimator(record, problem, device)
    tile_m, tile_n, tile_k = record.config["tile"]
    down, across = ceil(problem.m / tile_m), ceil(problem.n / tile_n)
    k_tiles = ceil(problem.k / tile_k) * problem.batch
    clock = device.clock_hz * CLOCK_SHARE
    hbm = problem.bytes / device.memory_bandwidth

    def weigh(tactic: Tactic) -> Estimate:
        m, n = (max(side, 1) for side in extents(tactic.cluster))
        blocks = ceil(down / m) * ceil(across / n)
        at_once = max(1, device.clusters_at_once(m * n))  # `misfit_device` rejects a cluster with 0
        parts = max(1, min(at_once // blocks, k_tiles))
        waves = ceil(blocks * parts / at_once)
        stages = ceil(k_tiles / parts) * waves
        math = stages * max(tile_m * tile_n * tile_k / WGMMA.multiplications[16], STAGE_CLOCKS) / clock
        # Multicast: a cluster reads each row once.
        reread = blocks * (m * tile_m + n * tile_n) / (problem.m + problem.n) - 1
        bounds = {"math": math, "hbm": hbm * (1 + REREAD_SHARE * max(reread, 0.0))}
        bound = max(bounds, key=lambda name: bounds[name])
        main_loop = sum(bound**OVERLAP for bound in bounds.values()) ** (1 / OVERLAP)
        sums = 2 * parts * blocks * m * n * tile_m * tile_n * 4 / SUMS_BYTES_PER_CLOCK
        overhead = (START_CLOCKS + sums + (CLUSTER_CLOCKS if m * n > 1 else 0)) / clock
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
