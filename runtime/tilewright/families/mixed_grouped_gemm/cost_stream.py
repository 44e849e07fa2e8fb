"""A model of how long a stream kernel of `mixed_grouped_gemm` takes: to rank tactics, not to predict a clock.

As for dense stream kernels, an SM takes time to decode and multiply its units of 64 rows of W by 128 of k,
which overlaps with the weights' way from HBM. Thread blocks are persistent, and an SM holds several.
"""

from __future__ import annotations

from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import terms
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.families.mixed_gemm.terms import UNIT_K, Terms
from tilewright.families.mixed_grouped_gemm.cost import routed_tiles
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.estimates import held_by_memory

# Fitted to 155 times on an H200 (L2 cold, another kernel between; seven layers of 8 to 128 experts, 1 to 64
# tokens, three formats; other formats are guesses), off by 6 % in the mean. With `cost`, the first tactic is
# 1.2 % behind the fastest in geomean of 67 problems of 1 to 16,384 tokens, 15 % at worst.
START_SECONDS = 5.2e-6  # launch, reading the groups, the latency of the first loads, the last sums
TILE_SECONDS = 1.6e-6  # for each tile of a thread block: the latency of its first loads, and its sums
STEP_SECONDS = 0.33e-6  # that a warp takes for a unit
UNIT_SECONDS = {
    "int4": 0.101e-6,
    "int4_zp": 0.107e-6,
    "mxfp4": 0.145e-6,
    "nvfp4": 0.159e-6,
    "int8": 0.160e-6,
    "e4m3": 0.160e-6,
}  # that an SM takes for a unit
WIDE = 1.47  # how much longer for each 8 rows after the first
OVERLAP = 7.5  # p of the p-norm that combines HBM and an SM's work


class Stream(terms.Kernel):
    """A stream kernel on a problem."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        tile_m, tile_n, _ = record.config["tile"]
        self.tiles = ceil(problem.n / tile_m) * routed_tiles(problem, tile_n)
        self.units = ceil(problem.k / UNIT_K)
        self.at_once = device.sm_count * held_by_memory(int(record.facts["smem_bytes"]))
        self.warps = record.facts["threads"] // 32
        of_unit = UNIT_SECONDS[FORMATS[problem.weight_format][0]]
        self.of_unit = of_unit * tile_m / 64 * WIDE ** (tile_n // 8 - 1)

    def terms(self, tactic: Tactic) -> Terms:
        of_block = ceil(self.tiles / self.at_once)
        steps = of_block * ceil(self.units / self.warps)
        hbm = self.problem.bytes / self.device.memory_bandwidth
        math = max(self.tiles / self.device.sm_count * self.units * self.of_unit, steps * STEP_SECONDS)
        main_loop = float((hbm**OVERLAP + math**OVERLAP) ** (1 / OVERLAP))
        added = START_SECONDS + TILE_SECONDS * of_block
        return Terms(1, 1, ceil(self.tiles), self.at_once, self.units, hbm, math, main_loop, added)
