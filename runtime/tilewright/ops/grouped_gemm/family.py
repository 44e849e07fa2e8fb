"""The `grouped_gemm` family as selection sees it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from tilewright.ops.common.family import Family
from tilewright.ops.common.fitting import misfit_contiguous, misfit_tiles_of_k
from tilewright.ops.common.tactics import RASTERS, SWIZZLES, Tactic, extents, misfit_settings
from tilewright.ops.grouped_gemm import cost
from tilewright.ops.grouped_gemm.problem import BLOCK, GROUPED_ROWS, Kind, Problem
from tilewright.ops.grouped_gemm.words import WORDS
from tilewright.table import KernelRecord
from tilewright.types import bits

MOST_BLOCKS = 8  # of a cluster, with those that split k
CLUSTERS = ("", "2x1", "1x2", "4x1", "1x4", "2x2")  # that a first selection weighs
SPLITS = (1, 2, 4, 8)
LEAST_STAGES = 2  # of k in a part, that a first selection weighs


def misfit_options(record: KernelRecord, kind: Kind) -> str | None:
    """None where the kernel, whose decisive fields are those of the kind, has what else it asks."""
    if kind.grouping == "k_sizes":
        if (kind.scales, kind.d) != ("1x128", "f32"):
            return "parts of k are multiplied with scales 1x128, into f32"
        if record.config["tile"][2] != BLOCK:
            return f"parts of k begin at multiples of {BLOCK}, and its stages hold {record.config['tile'][2]}"
    if kind.c and bits(kind.d) == 16 and not record.facts["splits"]:
        return "its sums do not fit into its stages' memory, through which they go to a C of 16 bits"
    return None


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel takes the problem's extents, else the reason."""
    return misfit_contiguous(record, problem.contiguous_extents())


def misfit_arguments(tactic: Tactic, record: KernelRecord) -> str | None:
    """None where the kernel runs as the tactic says, else the reason."""
    reason = misfit_settings(tactic, ("cluster", "raster", "swizzle", "splits"))
    if reason is not None:
        return reason
    m, n = cluster_of(tactic)
    if any(side & (side - 1) for side in (m, n, tactic.splits)):
        return f"cluster {m}x{n} of {tactic.splits} splits has a number that is not a power of two"
    if tactic.splits > 1 and not record.facts["splits"]:
        return "its sums do not fit into its stages' memory, through which the parts of a split k meet"
    if (blocks := m * n * tactic.splits) > MOST_BLOCKS:
        return f"a cluster of {blocks} thread blocks, {tactic.splits} to a tile, is more than {MOST_BLOCKS}"
    return None


def misfit_together(tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
    """Why a tactic that the kernel takes does not do for the problem."""
    m, n = cluster_of(tactic)
    down = n if record.config["swap_ab"] else m
    if problem.grouping == "k_sizes" and tactic.splits > 1:
        return "k is cut by groups, which the device alone knows, and by nothing else"
    if problem.grouping in GROUPED_ROWS and down > 1:
        return "thread blocks of a cluster share B, and their rows may be of different groups"
    return misfit_tiles_of_k(tactic, record, problem.k)


def cluster_of(tactic: Tactic) -> tuple[int, int]:
    """The thread blocks of the tactic's cluster in the kernel's own m and n."""
    m, n = extents(tactic.cluster)
    return max(m, 1), max(n, 1)


def candidates(record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
    """What a first selection weighs: clusters no larger than the grid of tiles, parts of two stages of k."""
    return tuple(_candidates(record, problem))


def _candidates(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    tile_m, tile_n, tile_k = record.config["tile"]
    swapped = record.config["swap_ab"]
    rows, columns = (tile_n, tile_m) if swapped else (tile_m, tile_n)
    down, across = -(-problem.m // rows), -(-problem.n // columns)
    stages = -(-problem.k // tile_k)
    for splits in SPLITS if record.facts["splits"] and problem.grouping != "k_sizes" else (1,):
        if splits > 1 and splits * LEAST_STAGES > stages:
            break
        for cluster in CLUSTERS:
            tactic = _tactic(record.name, cluster, splits)
            m, n = cluster_of(tactic)
            below, beside = (n, m) if swapped else (m, n)
            if (
                below <= (1 if problem.grouping in GROUPED_ROWS else down)
                and beside <= across
                and m * n * splits <= MOST_BLOCKS
            ):
                yield tactic


@functools.lru_cache(maxsize=1 << 14)
def _tactic(kernel: str, cluster: str, splits: int) -> Tactic:
    return Tactic(kernel, cluster=cluster, splits=splits)


def rearranged(tactic: Tactic) -> Iterator[Tactic]:
    """The tactic with every raster order and swizzle: left to the kernel by a first selection."""
    for raster in RASTERS:
        for swizzle in SWIZZLES if raster != "heuristic" else (1,):
            yield replace(tactic, raster=raster, swizzle=swizzle)


FAMILY: Family[Problem] = Family(
    words=WORDS,
    neighbour="m",
    decisive=("a", "b", "d", "scales"),
    misfit_options=misfit_options,
    misfit_extents=misfit_extents,
    misfit_arguments=misfit_arguments,
    candidates=candidates,
    estimator=cost.estimator,
    idle=lambda record, problem: False,
    misfit_together=misfit_together,
    peak=cost.peak,
    placement=("alignment", "scales_k_major"),
    variants=rearranged,
)
