"""The k ranges of batch-invariant mode: how many there are, and where they begin, for every m.

A row's bits depend on the order in which products along k are added. Without a split all lean kernels add in
one order. With a split they do so too if three things are equal:

- The number of ranges. It follows here from n, k and the size of an element alone, so it is the same for
  every m, on every GPU.
- Where the ranges begin. A kernel divides its k tiles evenly, the first ranges get one tile more. Kernels
  whose tiles hold 128 and 256 bytes of k therefore agree if the number of ranges divides the number of
  256-byte blocks. Otherwise only kernels with 128-byte tiles count.
- The order of the ranges' F32 sums. A cluster adds them in the order of k (sm90/cluster_reduction.hpp). So
  does the second kernel of a split in memory, for at most `MOST_SPLITS` ranges (`kCombineAtOnce`,
  sm90/parts_params.hpp); more of them it adds in groups.

A split serves few columns with a long k: without it their few tiles leave SMs idle while m is small. It costs
time if m is large, because every tile is stored several times. `LIMITS` bounds that by the cost model's
estimates for 156 pairs of n and k and m of 3 to 5,000: in the mean over m a pair gains 1 to 132 %, and no m
loses more than 18 %. On an H200 48 random shapes took 0.42 to 1.26 of their time without a split
(benchmarks/results/batch_invariant.md).
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.formats.types import bytes_of
from tilewright.selection import fitting

MOST_SPLITS = 4  # k ranges; clusters and the second kernel add up to 4 in the same order


class Limit(NamedTuple):
    """The condition under which k may be cut into `splits` ranges."""

    splits: int
    least: int  # bytes of k
    most: int  # columns of D


LIMITS = (
    Limit(4, 32768, 1024),
    Limit(4, 16384, 256),
    Limit(3, 24576, 1365),
    Limit(2, 16384, 2048),
    Limit(2, 12288, 1024),
)
TILE_BYTES = 128  # bytes of k in the narrowest k tile of the lean kernels
MOST_SUMS = 2**26  # bytes of sums that a second kernel adds; the model was not fitted to more than L2 holds


def splits_of(problem: Problem) -> int:
    """The number of k ranges; 1: k is not split."""
    k_bytes = problem.k * bytes_of(problem.a)
    if problem.batch > 1:
        return 1
    possible = [limit.splits for limit in LIMITS if k_bytes >= limit.least and problem.n <= limit.most]
    blocks = -(-k_bytes // (2 * TILE_BYTES))
    alike = [splits for splits in possible if blocks % splits == 0]
    return max(alike or possible, default=1)


def cuts(k: int, k_tile: int, splits: int) -> tuple[int, ...]:
    """Where the second and later k ranges begin, for a kernel with k tiles of `k_tile` elements
    (`ProductParams::first_k_tile`, sm90/product_params.hpp)."""
    tiles, larger = divmod(-(-k // k_tile), splits)
    return tuple(k_tile * (split * tiles + min(split, larger)) for split in range(1, splits))


def cuts_of(problem: Problem) -> tuple[int, ...]:
    """Where the second and later k ranges of a problem begin."""
    return cuts(problem.k, TILE_BYTES // bytes_of(problem.a), splits_of(problem))


def misfit_cuts(record: KernelRecord, problem: Problem) -> str | None:
    """Why a kernel does not divide k where the mode does; None if it does."""
    own, expected = cuts(problem.k, record.config["tile"][2], splits_of(problem)), cuts_of(problem)
    if own == expected:
        return None
    return f"its ranges of k begin at {_listed(own)}, those of other kernels at {_listed(expected)}"


def misfit(tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
    """Why a tactic of a lean kernel adds products along k in another order than others that the mode takes;
    None if it does not."""
    splits = splits_of(problem)
    if splits == 1:
        return fitting.misfit_invariant_split(tactic)
    if tactic.splits != splits:
        return (
            f"it adds the sums of {tactic.splits} range{'s' if tactic.splits > 1 else ''} of k, and for n of "
            f"{problem.n} and k of {problem.k} every m has {splits}"
        )
    return misfit_cuts(record, problem)


def candidates(record: KernelRecord, problem: Problem, clusters: tuple[str, ...]) -> tuple[Tactic, ...]:
    """The tactics of a kernel that divides k where the mode does: clusters whose thread blocks add the sums
    of the ranges, and a second kernel that adds them from memory."""
    splits = splits_of(problem)
    down, across = grid = fitting.own_tiles(record, problem.m, problem.n)
    clustered: tuple[Tactic, ...] = ()
    if record.facts["splits"]:
        clustered = fitting.in_clusters(record, grid, problem.k, (splits,), clusters)
    tile_m, tile_n, _ = record.config["tile"]
    if problem.gated or 4 * splits * down * across * tile_m * tile_n > MOST_SUMS:
        return clustered
    in_memory = (
        fitting.with_splits(record.name, cluster, splits, "split_k")
        for cluster, (m, n) in fitting.CLUSTERS.items()
        if m <= down and n <= across
    )
    return (*clustered, *in_memory)


def order(problem: Problem) -> str:
    """The order of a split's sums in words; empty if k is not split."""
    splits = splits_of(problem)
    if splits == 1:
        return ""
    begins = _listed((0, *cuts_of(problem)))
    return f"every m has {splits} ranges of k, which begin at {begins} and are added in this order"


def _listed(numbers: tuple[int, ...]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(numbers[-1]))))
