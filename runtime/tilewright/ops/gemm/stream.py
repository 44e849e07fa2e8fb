"""The kernels of few rows (tilewright/gemm/stream_kernel.hpp): what they take, and how long they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from tilewright.device import DeviceProperties
from tilewright.interface.declaration import TMA_BYTES
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic, misfit_settings
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

MOST_ROWS = 8
COLUMNS = 16  # of D, that a thread block computes
WARPS = 8  # of a thread block
SPLITS = tuple(range(1, 9))

# Fitted to 65 times of problems drawn at random, BF16 and E4M3, on an H200, L2 cold, launches back to back:
# estimates err by 11 %.
HBM_SHARE = 0.845  # of the rated bandwidth
START_SECONDS = 2.37e-6  # launch, the first loads' latency, the sums of the warps
ROW_SECONDS = 0.05e-6  # a row of A, which every thread block reads
STEPS_HIDDEN = 3  # of a warp, through its part of k, that the start covers
STEP_SECONDS = 0.24e-6  # any more
BLOCKS_AT_ONCE = {2: 3, 1: 2}  # of an SM, by bytes of an element: FP8 is unpacked in registers
WAVE_SECONDS = 0.82e-6  # of thread blocks, any but the first
CLUSTER_SECONDS = 0.98e-6  # of a split k, where two thread blocks have an SM; more of them, as much more


def is_stream(record: KernelRecord) -> bool:
    return bool(record.config.get("mainloop") == "stream")


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel takes the problem's extents, else the reason. What it adds, and D, may lie
    anywhere."""
    if problem.m > MOST_ROWS:
        return f"it computes {MOST_ROWS} rows at most, not {problem.m}"
    row = problem.k * bytes_of(problem.a)
    if row % TMA_BYTES:
        return f"it loads {TMA_BYTES} bytes at a time: rows of {row} bytes are no multiple"
    return None


def misfit(tactic: Tactic) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    if tactic.splits not in SPLITS:
        return f"it splits k over a cluster of 1 to 8, not {tactic.splits}"
    return misfit_settings(tactic, ("splits",))


def candidates(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    """Parts of k that leave each warp something to do."""
    step = WARPS * record.config["tile"][2]
    for splits in SPLITS:
        if splits == 1 or problem.k > step * (splits - 1):
            yield Tactic(record.name, splits=splits)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """A model of how long the kernel takes: bytes over bandwidth, and what does not overlap with them."""
    seconds = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
    tiles = ceil(problem.n / COLUMNS) * problem.batch

    def weigh(tactic: Tactic) -> Estimate:
        blocks = tiles * tactic.splits
        at_once = device.clusters_at_once(tactic.splits) * BLOCKS_AT_ONCE[bytes_of(problem.a)]
        waves = tiles / at_once
        steps = ceil(problem.k / (WARPS * tactic.splits * record.config["tile"][2]))
        added = START_SECONDS + ROW_SECONDS * problem.m
        added += STEP_SECONDS * max(0, steps - STEPS_HIDDEN) + WAVE_SECONDS * max(0.0, waves - 1)
        if tactic.splits > 1:
            added += CLUSTER_SECONDS * max(1.0, blocks / (2 * device.sm_count))
        return Estimate(seconds + added, ceil(waves), "hbm", seconds, added)

    return weigh
