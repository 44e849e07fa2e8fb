"""A model of how long a tactic of `mixed_gemm` takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. For 64 of k, a thread block takes as long as the slowest of: its
tensor cores, its threads, which decode, and its loads from L2. A launch cannot be faster than HBM. What does
not overlap is added: the launch, the epilogue, and the reduction of a split k.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.selection.estimates import Estimate

CLOCK_SHARE = 0.886  # share of the highest clock at which clocks count, as for gemm's lean kernels
HBM_SHARE = 0.90  # share of the rated bandwidth that is reached
OVERLAP = 4  # p of the p-norm that combines main loop and HBM
# Issue slots of a scheduler for 64 rows by 64 of k: counted in the machine code.
DECODE_CLOCKS = {"int4": 104, "int4_zp": 108, "mxfp4": 124, "nvfp4": 120}
DECODE_LATENCY = 2.4  # clocks that a warp takes for it, over its issue slots
LEAST_WGMMA_CLOCKS = 24  # of a wgmma with few columns
L2_BYTES_PER_CLOCK = 34  # that each SM gets where all load
BOX_CLOCKS = 30  # barriers of a stage of 64 of k
START_CLOCKS = 4000  # launch, the first stage's loads, and the epilogue's end
SPLIT_CLOCKS = 700  # a cluster's barriers, where it divides k
SPLIT_SHARE = 120  # more for each range of k
EPILOGUE_BYTES_PER_CLOCK = 17.6  # of D that a warpgroup stores, as for gemm's lean kernels


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, tile_k = record.config["tile"]
    down, across = ceil(problem.n / tile_m), ceil(problem.m / tile_n)
    slices = tile_m // 64
    warpgroups = record.facts["threads"] // 128 - 1
    k_tiles = ceil(problem.k / 128) * (128 // tile_k)
    clock = device.clock_hz * CLOCK_SHARE
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
    format, _ = FORMATS[record.config["weight_format"]]
    math = slices * 4 * max(tile_n / 2, LEAST_WGMMA_CLOCKS)
    # Each warpgroup has a warp on every scheduler, which interleaves them.
    decoding = slices * DECODE_CLOCKS[format] * max(1.0, DECODE_LATENCY / warpgroups)
    weights = tile_m * (32 + 4)
    rows = min(tile_n, problem.m)

    def weigh(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        blocks = ceil(down / cluster) * across
        at_once = max(1, device.clusters_at_once(cluster * tactic.splits))
        waves = ceil(blocks / at_once)
        loads = (weights + rows * 128 / cluster) / L2_BYTES_PER_CLOCK
        step = max(math, decoding, loads) + BOX_CLOCKS / (tile_k // 64)
        steps = ceil(k_tiles / tactic.splits) * (tile_k // 64)
        epilogue = tile_m * rows * 2 / EPILOGUE_BYTES_PER_CLOCK / warpgroups
        loop = waves * (steps * step + (epilogue if waves > 1 else 0)) / clock
        bounds = {"math": loop, "hbm": hbm}
        whole = sum(bound**OVERLAP for bound in bounds.values()) ** (1 / OVERLAP)
        added = START_CLOCKS + epilogue
        if tactic.splits > 1:
            added += SPLIT_CLOCKS + SPLIT_SHARE * tactic.splits
        overhead = added / clock
        return Estimate(whole + overhead, waves, max(bounds, key=bounds.__getitem__), whole, overhead)

    return weigh
