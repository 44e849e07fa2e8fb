"""Corrects the estimates of `cost_lean` by what was learnt from the times that it is fitted to.

The mechanisms of `cost_lean` put a tactic within 5 % of its time, and which of two they wrong depends on
several things at once: the cluster, how full the last wave is, what the loop waits for. Trees have learnt by
how much (`benchmarks/fit/learn_lean_model.py`, which writes them beside this file): the logarithm of what an
estimate is multiplied by, from features of a kernel and a tactic. It is bounded, so that a problem unlike
all that were timed is not far from what the mechanisms say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.cost_lean import Kernel, Parts
from tilewright.families.gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.trees import Trees

LEAST_N = 17  # where anything was learnt
UNIT = 1e-4  # of a tree's answers
MOST = 0.35  # of the logarithm of what an estimate is multiplied by


def refine(
    nearest: Sequence[tuple[KernelRecord, Tactic]], problem: Problem, device: DeviceProperties
) -> Sequence[Estimate | None]:
    """The mechanisms' estimates, corrected; None of problems of which nothing was learnt."""
    if not is_learnt(problem):
        return [None] * len(nearest)
    records = {record.name: record for record, _ in nearest}
    kernels = {name: Kernel(record, problem, device) for name, record in records.items()}
    pairs = [(kernel := kernels[record.name], kernel.parts(tactic)) for record, tactic in nearest]
    shares = corrections([features(kernel, parts) for kernel, parts in pairs])
    return [kernel.estimate(parts, by) for (kernel, parts), by in zip(pairs, shares, strict=True)]


def is_learnt(problem: Problem) -> bool:
    """Not of few columns: nothing was timed."""
    return problem.n >= LEAST_N


def features(kernel: Kernel, parts: Parts) -> tuple[float, ...]:
    """What the trees are asked about, each feature by its place: of the kernel on the problem, then of a
    tactic."""
    (tile_m, tile_n), (rows, columns), down, across = kernel.tile, kernel.extents, kernel.down, kernel.across
    m, n, splits, in_memory, size, blocks, waves, boxes, math, loop, hbm, power, whole, added = parts
    rows_share, columns_share = rows / (down * tile_m), columns / (across * tile_n)
    last = waves.last / waves.at_once
    asked = tile_m / n + tile_n / m
    there = down * across / (-(-down // m) * m * (-(-across // n) * n))
    busy = min(blocks * size, kernel.device.sm_count)
    return (
        tile_m, tile_n, tile_m * tile_n, kernel.boxes, kernel.depth, kernel.swapped, kernel.pingpong,
        kernel.size, kernel.pieces, kernel.epilogue, rows, columns, kernel.stages, down, across,
        rows_share, columns_share, rows_share * columns_share,
        kernel.depth / kernel.boxes, (tile_m + tile_n) * kernel.boxes,
        m, n, splits, in_memory, size,
        blocks * size, blocks / waves.at_once, last, waves.last * size, boxes, boxes / kernel.boxes,
        math / kernel.wgmma, math * boxes, asked, asked / math,
        (tile_m + tile_n) / math, there, loop, hbm, power, whole, added,
        loop / whole, hbm / whole, power / whole, added / (whole + added), whole + added,
        down / m, across / n, tile_m * m, tile_n * n, boxes / kernel.depth,
        busy * asked / math, busy * (tile_m + tile_n) / math, asked * kernel.wgmma / math**2,
    )  # fmt: skip


def corrections(rows: Sequence[Sequence[float]]) -> list[float]:
    """What the estimates of tactics with such features are multiplied by."""
    return [exp(max(-MOST, min(MOST, found * UNIT))) for found in _trees().answers(rows)]


@cache
def _trees() -> Trees:
    from tilewright.families.gemm.learnt_weights import TREES  # noqa: PLC0415 (read when a problem first asks)

    return Trees(TREES)
