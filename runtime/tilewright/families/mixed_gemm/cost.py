"""A model of how long a tactic of `mixed_gemm` takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. A *piece* is 64 rows of W by 64 of k. It takes an SM issue slots
to decode and clocks of the tensor cores to multiply, which overlap in part, as do its loads; with few warps,
a warp's latencies count instead. A launch can be faster neither than HBM nor than the tensor cores. What does
not overlap is added: the launch, the epilogue, and the sums that several thread blocks, or groups of
warpgroups, add up.

Numbers that are not the hardware's own are fitted to 320 times on an H200 (L2 cold, launches back to back;
four shapes, 1 to 4,096 rows): the model's first tactic is 1.0 % behind the fastest in geomean of 26 problems,
10 % at worst.
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
PIECE = 64  # rows of W, and elements of k
STEPS = 4  # wgmmas of a piece

DECODE_CLOCKS = {
    "int4": 120,
    "int4_zp": 124,
    "mxfp4": 160,
    "nvfp4": 158,
}  # clocks that a piece takes to decode
WGMMA_CLOCKS = 2.8  # clocks of a wgmma beside those of its columns
OVERLAP_PIECE = 1.87  # p of the p-norm that combines decoding and multiplying
LATENCY = 1.79  # clocks that a warp takes to decode a piece, over DECODE_CLOCKS
BOX_CLOCKS = 121  # clocks of a stage's barriers
L2_BYTES_PER_CLOCK = 89  # bytes that an SM gets
SCALE_BYTES = 4  # of a row in a piece, about
HBM_SHARE = 0.78  # share of the rated bandwidth that is reached
OVERLAP = 4  # p of the p-norms that combine a piece's work and its loads, and the main loop and the limits
START_CLOCKS = 4590  # clocks of launch, the first stage's loads, and the last store
CLUSTER_CLOCKS = 504  # clocks of the barriers of a cluster that shares activations
SHARED_SUMS_CLOCKS = 1944  # clocks of sums that go through shared memory
SPLIT_CLOCKS = 89  # clocks more for each range of k
EPILOGUE_BYTES_PER_CLOCK = 60  # bytes of D that a warpgroup stores; the times hardly show it


def norm(*values: float) -> float:
    """The p-norm of times that overlap."""
    return float(sum(value**OVERLAP for value in values) ** (1 / OVERLAP))


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, tile_k = record.config["tile"]
    groups, pieces = record.config["k_groups"], tile_k // PIECE
    down, across = ceil(problem.n / tile_m), ceil(problem.m / tile_n)
    slices, rows = tile_m // PIECE, min(tile_n, problem.m)
    warpgroups = record.facts["threads"] // 128 - 1
    k_tiles = ceil(problem.k / 128) * (128 // tile_k)
    clock = device.clock_hz * CLOCK_SHARE
    decoding = DECODE_CLOCKS[FORMATS[problem.weight_format][0]]
    wgmmas = STEPS * (tile_n / 2 + WGMMA_CLOCKS)
    piece = (decoding**OVERLAP_PIECE + wgmmas**OVERLAP_PIECE) ** (1 / OVERLAP_PIECE)
    math = slices * max(piece, (LATENCY * decoding + wgmmas) / warpgroups)
    epilogue = tile_m * rows * 2 / EPILOGUE_BYTES_PER_CLOCK / warpgroups
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)

    def weigh(tactic: Tactic) -> Estimate:
        cluster, splits = max(extents(tactic.cluster)[0], 1), tactic.splits
        at_once = max(1, device.clusters_at_once(cluster * splits))
        waves = ceil(ceil(down / cluster) * across / at_once)
        loads = (tile_m * (PIECE // 2 + SCALE_BYTES) + rows * 2 * PIECE / cluster) / L2_BYTES_PER_CLOCK
        of_piece = norm(math, loads) + BOX_CLOCKS / pieces
        of_tile = ceil(k_tiles / splits) * pieces * of_piece + (epilogue if waves > 1 else 0.0)
        bounds = {"hbm": hbm, "math": waves * of_tile / clock}
        main_loop = norm(*bounds.values())
        added = START_CLOCKS + epilogue + (CLUSTER_CLOCKS if cluster > 1 else 0)
        if splits > 1 or groups > 1:
            added += SHARED_SUMS_CLOCKS + SPLIT_CLOCKS * splits
        overhead = added / clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
