"""A model of how long a stream kernel of `mixed_gemm` takes: to rank tactics, not to predict a clock.

A *unit* is 64 rows of W by 128 of k. An SM takes time to decode and multiply its units, which overlaps with
the weights' way from HBM. A warp takes its units one after another. Waves of thread blocks follow one
another. What does not overlap is added: the launch and the first loads, and the sums of a cluster.
"""

from __future__ import annotations

from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import terms
from tilewright.families.mixed_gemm.cost import norm
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.families.mixed_gemm.terms import UNIT_K, Terms
from tilewright.selection.estimates import held_by_memory

# Fitted to 1,314 times on an H200 (L2 cold, launches back to back; nine shapes, 1 to 8 rows, three formats;
# int4_zp's is a guess), when waves did not count one by one: the model's first tactic was 0.5 % behind the
# fastest in geomean of 81 problems, 6.6 % at worst. Estimates are off by 10 %.
HBM_SHARE = 0.947  # share of the rated bandwidth that is reached
START_SECONDS = 1.59e-6  # launch, the latency of the first loads, the sums of the warps
ROW_SECONDS = 0.061e-6  # for each row of A after the first, which every thread block reads
UNIT_SECONDS = {
    "int4": 0.099e-6,
    "int4_zp": 0.105e-6,
    "mxfp4": 0.181e-6,
    "nvfp4": 0.180e-6,
    "int8": 0.180e-6,
    "e4m3": 0.180e-6,
}  # that an SM takes for a unit
WIDE = 1.41  # how much longer with 16 rows than with 8
STEP_SECONDS = 0.93e-6  # that a warp takes for a unit
WAVE_SECONDS = 0.5e-6  # for each wave after the first
CLUSTER_SECONDS = 0.445e-6  # for a cluster
CLUSTER_BLOCK_SECONDS = 0.445e-6  # for each thread block of it
OVERLAP = 2.66  # p of the p-norm that combines HBM and an SM's work


def blocks_at_once(record: KernelRecord, device: DeviceProperties, splits: int) -> int:
    """Thread blocks that the GPU holds."""
    of_sm = max(1, held_by_memory(int(record.facts["smem_bytes"])))
    return max(1, device.clusters_at_once(splits)) * splits * of_sm


class Stream(terms.Kernel):
    """A stream kernel on a problem."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        tile_m, tile_n, _ = record.config["tile"]
        self.hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
        self.tiles, self.units = ceil(problem.n / tile_m), ceil(problem.k / UNIT_K)
        self.of_unit = UNIT_SECONDS[FORMATS[problem.weight_format][0]] * tile_m / 64
        self.wide = WIDE if tile_n > 8 else 1.0
        self.warps = record.facts["threads"] // 32

    def terms(self, tactic: Tactic) -> Terms:
        splits = tactic.splits
        blocks, of_block = self.tiles * splits, ceil(self.units / splits)
        at_once = blocks_at_once(self.record, self.device, splits)
        full, rest = divmod(blocks, at_once)
        waves = [at_once] * full + [rest] * (rest > 0)  # thread blocks of each
        maths = [self.math(of_wave, of_block, splits) for of_wave in waves]
        # The last wave may have few thread blocks, which cannot use all of the bandwidth.
        times = (
            norm(self.hbm * of_wave / blocks, math, power=OVERLAP)
            for of_wave, math in zip(waves, maths, strict=True)
        )
        added = START_SECONDS + ROW_SECONDS * (self.problem.m - 1) + WAVE_SECONDS * (len(waves) - 1)
        if splits > 1:
            added += CLUSTER_SECONDS + CLUSTER_BLOCK_SECONDS * splits
        return Terms(1, splits, blocks, at_once, of_block, self.hbm, sum(maths), sum(times), added)

    def math(self, blocks: int, of_block: int, splits: int) -> float:
        """Seconds that SMs take for the units of thread blocks that begin together."""
        of_sm = ceil(blocks / self.device.sm_count)
        if blocks > self.device.clusters_at_once(splits) * splits:
            of_sm = max(of_sm, 2)  # clusters share SMs, while others idle
        steps = ceil(of_block / self.warps)
        return float(self.wide * max(of_sm * of_block * self.of_unit, steps * STEP_SECONDS))
