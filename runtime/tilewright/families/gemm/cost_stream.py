"""A model of how long a kernel of few rows takes: to rank splits of k, not to predict a clock."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.formats.types import bytes_of
from tilewright.selection.estimates import Estimate

COLUMNS = 16  # of D, that a thread block computes
WARPS = 8  # of a thread block

# By bytes of an element (FP8 is unpacked in registers). Fitted to 53 times of problems drawn at random in
# BF16 and 85 in E4M3, on H200s, L2 cold, launches back to back: estimates err by 5 and 7 %.
HBM_SHARE = {2: 0.845, 1: 0.966}  # of the rated bandwidth
START_SECONDS = {2: 2.34e-6, 1: 2.28e-6}  # launch, the first loads' latency, the sums of the warps
ROW_SECONDS = 0.05e-6  # a row of A, which every thread block reads
STEPS_HIDDEN = 3  # of a warp, through its part of k, that the start covers
STEP_SECONDS = {2: 0.25e-6, 1: 0.36e-6}  # any more
BLOCKS_AT_ONCE = {2: 3, 1: 2}  # of an SM
WAVE_SECONDS = {2: 0.68e-6, 1: 1.61e-6}  # of thread blocks, however few, any but the first
# Of 44 problems of 3 to 8 rows that both were timed on, a lean kernel was the fastest on all; this model put
# itself first on 21 of 132.
BEHIND_LEAN = 1.2
CLUSTER_SECONDS = {2: 0.82e-6, 1: 1.47e-6}  # of a split k, where two blocks have an SM; of more, as much more


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Bytes over bandwidth, and what does not overlap with them."""
    size = bytes_of(problem.a)
    seconds = problem.bytes / (device.memory_bandwidth * HBM_SHARE[size])
    tiles = ceil(problem.n / COLUMNS) * problem.batch

    def weigh(tactic: Tactic) -> Estimate:
        blocks = tiles * tactic.splits
        # Where a cluster does not find an SM for each thread block, these share SMs.
        at_once = max(1, device.clusters_at_once(tactic.splits)) * BLOCKS_AT_ONCE[size]
        waves = ceil(tiles / at_once)
        steps = ceil(problem.k / (WARPS * tactic.splits * record.config["tile"][2]))
        added = START_SECONDS[size] + ROW_SECONDS * problem.m
        added += STEP_SECONDS[size] * max(0, steps - STEPS_HIDDEN) + WAVE_SECONDS[size] * (waves - 1)
        if tactic.splits > 1:
            added += CLUSTER_SECONDS[size] * max(1.0, blocks / (2 * device.sm_count))
        whole, more = seconds * BEHIND_LEAN, added * BEHIND_LEAN
        return Estimate(whole + more, waves, "hbm", whole, more)

    return weigh
