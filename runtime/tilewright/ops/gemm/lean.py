"""Tactics of the kernels with a mainloop of ours (tilewright/gemm/lean.hpp): clusters, and splits of k."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tilewright.interface.declaration import TMA_BYTES
from tilewright.ops.common.fitting import misfit_cluster
from tilewright.ops.common.tactics import MATRIX_SETTINGS, Tactic, extents, misfit_settings
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

MOST_BLOCKS = 8  # of a cluster, with those that split k
CLUSTERS = ("", "2x1", "1x2", "4x1", "1x4", "2x2")  # that a first selection weighs
SPLITS = tuple(range(1, MOST_BLOCKS + 1))
LEAST_STAGES = 2  # of k in a part, that a first selection weighs


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
    reason = misfit_settings(tactic, known) or misfit_cluster(tactic, record)
    if reason is not None:
        return reason
    if tactic.splits > 1 and not record.facts["splits"]:
        return "its sums do not fit into its stages' memory, through which the parts of a split k meet"
    blocks = cluster_of(tactic)[0] * cluster_of(tactic)[1] * tactic.splits
    if blocks > MOST_BLOCKS:
        return f"a cluster of {blocks} thread blocks, {tactic.splits} to a tile, is more than {MOST_BLOCKS}"
    return None


def cluster_of(tactic: Tactic) -> tuple[int, int]:
    """The thread blocks of the tactic's cluster in the kernel's own m and n."""
    m, n = extents(tactic.cluster)
    return max(m, 1), max(n, 1)


def candidates(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    """What a first selection weighs: clusters no larger than the grid of tiles, parts of two stages of k."""
    tile_m, tile_n, tile_k = record.config["tile"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    down, across = -(-rows // tile_m), -(-columns // tile_n)
    stages = -(-problem.k // tile_k)
    for splits in SPLITS if record.facts["splits"] else (1,):
        if splits > 1 and splits * LEAST_STAGES > stages:
            break
        for cluster in CLUSTERS:
            m, n = extents(cluster) if cluster else (1, 1)
            if m <= down and n <= across and m * n * splits <= MOST_BLOCKS:
                yield _tactic(record.name, cluster, splits)


@functools.lru_cache(maxsize=1 << 14)
def _tactic(kernel: str, cluster: str, splits: int) -> Tactic:
    return Tactic(kernel, cluster=cluster, splits=splits)
