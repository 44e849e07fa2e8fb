"""A model of how long a stream kernel (few rows) takes: to rank splits of k, not to predict a clock."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.formats.types import bytes_of
from tilewright.selection.estimates import Estimate

COLUMNS = 16  # columns of D that a thread block computes
WARPS = 8  # warps of a thread block

# Dictionaries are by the bytes of an element; FP8 is unpacked in registers. Fitted to the times of random
# problems, 53 in BF16 and 85 in E4M3, on H200s, with a cold L2 and back-to-back launches. Estimates are off
# by 5 and 7 %.
HBM_SHARE = {2: 0.845, 1: 0.966}  # share of the rated bandwidth that is reached
START_SECONDS = {2: 2.34e-6, 1: 2.28e-6}  # launch, the latency of the first loads, the sums of the warps
ROW_SECONDS = 0.05e-6  # for each row of A, which every thread block reads
STEPS_HIDDEN = 3  # steps of a warp along its range of k that START_SECONDS cover
STEP_SECONDS = {2: 0.25e-6, 1: 0.36e-6}  # for each further step
BLOCKS_AT_ONCE = {2: 3, 1: 2}  # thread blocks that an SM holds
WAVE_SECONDS = {2: 0.68e-6, 1: 1.61e-6}  # for each wave after the first, however small
# Factor on the time. For 44 problems of 3 to 8 rows, a lean kernel was always faster than this one, but
# without the factor this model came first for 21 of 132 problems.
BEHIND_LEAN = 1.2
# For a split k with two thread blocks on each SM; more with more thread blocks, in proportion.
CLUSTER_SECONDS = {2: 0.82e-6, 1: 1.47e-6}


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel: bytes over bandwidth, and what does not overlap with it."""
    size = bytes_of(problem.a)
    seconds = problem.bytes / (device.memory_bandwidth * HBM_SHARE[size])
    tiles = ceil(problem.n / COLUMNS) * problem.batch

    def weigh(tactic: Tactic) -> Estimate:
        blocks = tiles * tactic.splits
        # If there is no SM for each thread block of a cluster, its thread blocks share SMs.
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
