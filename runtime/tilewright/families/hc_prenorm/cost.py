"""A model of how long an `hc_prenorm` kernel takes.

One persistent thread block runs on each SM. Thread blocks compute whole tiles, or share the k blocks of all
tiles evenly; then a second kernel adds the sums of divided tiles (`Plan` of tilewright/hc_prenorm/plan.hpp).
A k block takes as long as an SM needs to load and to multiply it. A launch cannot be faster than memory.

Numbers that are not the hardware's own are fitted to the times of all kernels on one H200, L2 cold
(`benchmarks/compare/prenorm.py --kernels`): the model's first is 0.8 % behind the fastest in geomean of 32
problems, 12 % at worst. The model assumes that other GPUs are like it, except for the bandwidth that RTX GPUs
reach.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.hc_prenorm.problem import BLOCK_K, Problem
from tilewright.selection.estimates import Estimate

# The same as in plan.hpp.
ADDING_BLOCKS = 8
LEAST_BLOCKS = 4

# Fitted. Clocks of a k block (64 of k): a constant, for each row, and for each row and column.
BLOCK_CLOCKS = {"wgmma": 186, "sync": 30}
ROW_CLOCKS = {"wgmma": 0.57, "sync": 0.117}
ELEMENT_CLOCKS = {"wgmma": 0.156, "sync": 0.237}
CLOCK_SHARE = 0.886  # share of the highest clock at which these clocks count: 1755 of 1980 MHz
HBM_SHARE = 0.917  # share of the rated bandwidth that is reached
# The same of GDDR7: for k of 28672, 1242 GB/s of 1792 (m of 8192) and 1087 (m of 4096); DeepGEMM pull request
# 324.
GDDR_SHARE = 0.69
GDDR_CAPABILITY = (12, 0)
START_SECONDS = 2.1e-6  # launch, the first stage, and the last sums
TILE_CLOCKS = 1420  # clocks between two tiles
ADDING_SECONDS = 2.95e-6  # the second kernel
OVERLAP = 12  # p of the p-norm that combines an SM's work and memory


class Shares(NamedTuple):
    """How thread blocks share the work."""

    ctas: int
    blocks: int  # k blocks of the busiest thread block
    tiles: int  # tiles of the busiest thread block
    cut: bool  # whether tiles are divided along k


def shares(tile_m: int, problem: Problem, sm_count: int) -> Shares:
    """The shares that `Plan` gives."""
    rows, blocks = ceil(problem.m / tile_m), ceil(problem.k / BLOCK_K)
    tiles, every = rows * problem.splits, rows * blocks
    whole = ceil(tiles / sm_count) * ceil(blocks / problem.splits)
    even = max(ceil(every / sm_count), LEAST_BLOCKS)
    if even + ADDING_BLOCKS < whole:
        ctas = min(ceil(every / even), sm_count)
        return Shares(ctas, ceil(every / ctas), ceil(tiles / ctas) + 1, cut=True)
    ctas = min(tiles, sm_count)
    return Shares(ctas, whole, ceil(tiles / ctas), cut=False)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of a kernel. All its tactics take the same time."""
    tile_m, tile_n, _ = record.config["tile"]
    share = shares(tile_m, problem, device.sm_count)
    mma = record.config["mma"]
    block = BLOCK_CLOCKS[mma] + ROW_CLOCKS[mma] * tile_m + ELEMENT_CLOCKS[mma] * tile_m * tile_n
    clock = device.clock_hz * CLOCK_SHARE
    reached = GDDR_SHARE if device.capability == GDDR_CAPABILITY else HBM_SHARE
    needs = {
        "math": share.blocks * block / clock,
        "hbm": problem.bytes / (device.memory_bandwidth * reached),
    }
    loop = sum(value**OVERLAP for value in needs.values()) ** (1 / OVERLAP)
    added = START_SECONDS + share.tiles * TILE_CLOCKS / clock + (ADDING_SECONDS if share.cut else 0.0)
    estimate = Estimate(loop + added, share.tiles, max(needs, key=needs.__getitem__), loop, added)
    return lambda tactic: estimate
