"""Splits of k whose sums a second kernel adds in memory (split_k): which tactics a kernel has."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, plain
from tilewright.selection import fitting

# The most k ranges, and the fewest k tiles in a range. Beyond them the second kernel does not pay off.
MOST_PARTS = 16
LEAST_TILES = 4


def misfit_decomposition(tactic: Tactic) -> str | None:
    """Why a kernel that divides k in memory alone does not run as the tactic says; None if it does."""
    if tactic.decomposition not in ("heuristic", "split_k"):
        return f"it has no decomposition {tactic.decomposition}"
    if (tactic.splits > 1) != (tactic.decomposition == "split_k"):
        return f"expected split_k with 2 parts at least, got {tactic.decomposition} with {tactic.splits}"
    return None


def deepest(record: KernelRecord, k: int) -> int:
    """The most k ranges of which each has enough k tiles."""
    return int(k // (LEAST_TILES * record.config["tile"][2]))


def in_one_wave(record: KernelRecord, problem: Any, device: DeviceProperties) -> tuple[Tactic, ...]:
    """One tactic without a split, and those whose k ranges fill the SMs once."""
    down, across = fitting.own_tiles(record, problem.m, problem.n)
    in_a_wave = device.sm_count // (down * across * problem.batch)
    most = min(MOST_PARTS, deepest(record, problem.k), in_a_wave)
    splits = (fitting.with_splits(record.name, "", parts, "split_k") for parts in range(2, most + 1))
    return (plain(record.name), *splits)
