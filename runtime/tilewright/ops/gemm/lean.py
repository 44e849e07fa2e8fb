"""Tactics of the kernels with a mainloop of ours (tilewright/gemm/lean.hpp): clusters, and splits of k."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.interface.declaration import TMA_BYTES
from tilewright.ops.common import fitting
from tilewright.ops.common.tactics import MATRIX_SETTINGS, Tactic, misfit_settings
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

SPLITS = tuple(range(1, fitting.MOST_BLOCKS + 1))
# Thread blocks that a split k may come to: one on each SM of an H200. Of 499 problems on one, 164 tactics won
# 3 % or more by splitting, and none of them in a second wave, which the model puts 4 to 7 % too low.
MOST_SPLIT_BLOCKS = 132


def is_lean(record: KernelRecord) -> bool:
    """Whether a kernel of the family has the mainloop of ours."""
    return bool(record.config.get("mainloop") == "lean")


def may_be_lean(a: str) -> bool:
    """Whether there may be a lean kernel for operands of a type: of 16 bits, or FP8."""
    return a in ("bf16", "f16", "e4m3", "e5m2")


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel takes the problem's extents and alignment, else the reason.

    TMA loads any extents, and stores whole 16 bytes; threads store the rest, of sums that go through the
    stages' memory.
    """
    row = problem.n * bytes_of(problem.d)
    if record.facts["splits"] or not (row % TMA_BYTES or problem.alignment % TMA_BYTES):
        return None
    return (
        f"it stores D by TMA alone: rows of {row} bytes, aligned to {problem.alignment}, "
        f"are no multiples of {TMA_BYTES}"
    )


def misfit(tactic: Tactic, record: KernelRecord) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    known = tuple(one for one in MATRIX_SETTINGS if one not in ("fallback", "decomposition", "reduction"))
    reason = misfit_settings(tactic, known) or fitting.misfit_cluster(tactic, record)
    return reason or fitting.misfit_blocks(tactic, record)


def candidates(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    """What a first selection weighs: clusters no larger than the grid of tiles, parts of two stages of k."""
    tile_m, tile_n, _ = record.config["tile"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    down, across = -(-rows // tile_m), -(-columns // tile_n)
    most = MOST_SPLIT_BLOCKS // (down * across) if record.facts["splits"] else 1
    return fitting.in_clusters(record, (down, across), problem.k, SPLITS[: max(1, most)])
