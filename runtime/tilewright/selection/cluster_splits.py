"""Splits of k over the thread blocks of a cluster, which add their sums through shared memory, for kernels of
tcgen05 in CuTe-DSL: which tactics a kernel has."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, in_parts
from tilewright.selection import fitting

SPLITS = (1, 2, 4, 8)


def misfit(tactic: Tactic, record: KernelRecord) -> str | None:
    """Why the kernel does not divide k as the tactic says; None if it does."""
    if tactic.splits == 1:
        return None
    if not record.facts["splits"]:
        return "it does not split k: only kernels of one thread block that swap operands do"
    if tactic.splits not in SPLITS:
        return f"it splits k over a cluster, in {', '.join(map(str, SPLITS))} parts"
    return None


def misfit_device(tactic: Tactic, device: DeviceProperties) -> str | None:
    """Why a device has no room for the clusters; None if it has."""
    return fitting.misfit_room(tactic.splits, device) if tactic.splits > 1 else None


def in_one_wave(record: KernelRecord, problem: Any, device: DeviceProperties) -> tuple[Tactic, ...]:
    """A tactic without a split, and those whose k ranges have `fitting.LEAST_TILES` k tiles at least and run
    at once."""
    down, across = fitting.own_tiles(record, problem.m, problem.n)
    in_a_wave = device.sm_count // (down * across * problem.batch)
    ranges = -(-problem.k // record.config["tile"][2]) // fitting.LEAST_TILES
    most = min(in_a_wave, ranges) if record.facts["splits"] else 1
    return in_parts(record.name, SPLITS, max(1, most))
