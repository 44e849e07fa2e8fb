"""How long a tactic takes, by the architecture of its kernel: enough to rank tactics.

A first model, of what every architecture has in common: thread blocks take tiles in waves; a k tile takes
the longest of what the tensor core, the SM's loads and memory need for it. Nothing of it is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.problem import BITS, Problem
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic, extents
from tilewright.table import KernelRecord


class Rates(NamedTuple):
    """Of one SM, a clock."""

    multiplications: dict[int, int]  # by the bits of the wider operand
    fill_bytes: int  # from L2


# Dense tensor-core rates of NVIDIA's data sheets over SMs and clock. sm_90 multiplies in BF16, whatever the
# operands; sm_120 keeps half of FP4's rate for MXFP8.
RATES = {
    "sm_90": Rates({4: 2048, 8: 2048}, 64),
    "sm_100": Rates({4: 16384, 8: 8192}, 96),
    "sm_103": Rates({4: 24576, 8: 8192}, 96),
    "sm_110": Rates({4: 16384, 8: 8192}, 64),
    "sm_120": Rates({4: 2048, 8: 1024}, 64),
    "sm_121": Rates({4: 2048, 8: 1024}, 64),
}
LAUNCH_SECONDS = 2e-6
TILE_CLOCKS = 1500  # first loads and epilogue of a tile, which nothing hides
PART_CLOCKS = 1000  # adding up one more part of k


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel."""
    rates = RATES[record.arch.rstrip("af")]
    tile_m, tile_n, tile_k = record.config["tile"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    grid_m, grid_n = ceil(rows / tile_m), ceil(columns / tile_n)
    k_tiles = ceil(problem.k / tile_k)
    bits = max(BITS[problem.a], BITS[problem.b])
    math = tile_m * tile_n * tile_k / rates.multiplications[bits]
    fill = (tile_m * BITS[problem.a] + tile_n * BITS[problem.b]) / 8 * tile_k / rates.fill_bytes
    moved = problem.bytes / device.memory_bandwidth

    def weigh(tactic: Tactic) -> Estimate:
        cluster_m, cluster_n = (max(1, side) for side in extents(tactic.cluster))
        parts = tactic.splits
        tiles = ceil(grid_m / cluster_m) * cluster_m * ceil(grid_n / cluster_n) * cluster_n
        waves = tiles * problem.batch * parts / device.sm_count
        if tactic.decomposition != "stream_k":
            waves = ceil(waves)
        shared = fill * (1 / cluster_m + 1 / cluster_n) / 2
        clocks = waves * ceil(k_tiles / parts) * max(math, shared)
        main_loop = max(clocks / device.clock_hz, moved)
        added = ceil(waves) * TILE_CLOCKS + (parts - 1) * PART_CLOCKS
        overhead = LAUNCH_SECONDS + added / device.clock_hz
        bound = "hbm" if main_loop == moved else "math" if math >= shared else "fill"
        return Estimate(main_loop + overhead, ceil(waves), bound, main_loop, overhead)

    return weigh
