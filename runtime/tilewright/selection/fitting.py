"""Checks of tactics for kernels of matrix products, and the tactics that a first selection estimates."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents, plain

MOST_BLOCKS = 8  # thread blocks of a cluster chosen at run time, with those that split k
# The clusters chosen at run time that selection estimates.
CLUSTERS = {"": (1, 1), **{cluster: extents(cluster) for cluster in ("2x1", "1x2", "4x1", "1x4", "2x2")}}
LEAST_TILES = 2  # k tiles of a k range, for the splits that selection estimates
STREAM_K_SPLITS = (2, 3, 4, 6, 8, 12, 16)  # splits of a stream-K kernel that selection estimates


def misfit_splits(tactic: Tactic, record: KernelRecord) -> str | None:
    """Why the kernel does not cut k as the tactic says; None if it does."""
    splits = tactic.splits > 1 or tactic.decomposition in ("split_k", "stream_k")
    if splits and record.config["scheduler"] != "stream_k":
        return "only stream-K kernels split k"
    return None


def misfit_cluster(tactic: Tactic, record: KernelRecord) -> str | None:
    """Why the kernel does not run in the tactic's clusters; None if it does."""
    if not tactic.cluster and not tactic.fallback:
        return None
    own = record.config["cluster"]
    if own != "dynamic":
        return f"its cluster is {own[0]}x{own[1]}, compiled in"
    if not tactic.cluster:
        return f"fallback is {tactic.fallback} and there is no cluster to fall back from"
    unit = cluster_unit(record)
    cluster = extents(tactic.cluster)
    fallback = extents(tactic.fallback) if tactic.fallback else unit
    for what, shape in (("cluster", cluster), ("fallback", fallback)):
        if any(side & (side - 1) for side in shape):
            return f"{what} {shape[0]}x{shape[1]} has a side that is not a power of two"
    for what, shape, whose, part in (
        ("cluster", cluster, "its", unit),
        ("fallback", fallback, "its", unit),
        ("cluster", cluster, "the fallback's", fallback),
    ):
        if shape[0] % part[0] or shape[1] % part[1]:
            return f"{what} {shape[0]}x{shape[1]} is not made of {whose} {part[0]}x{part[1]} thread blocks"
    return None


def misfit_contiguous(record: KernelRecord, extents: Mapping[str, int]) -> str | None:
    """Why the kernel does not take matrices with these numbers of contiguous elements; None if it does."""
    alignment = record.facts["alignment"]
    for matrix, extent in extents.items():
        if extent % alignment[matrix]:
            return (
                f"{matrix} has {extent} elements along its contiguous dimension, "
                f"which is not a multiple of {alignment[matrix]}"
            )
    return None


def misfit_alignment(record: KernelRecord, alignment: Mapping[str, int]) -> str | None:
    """Why the kernel does not take matrices of this alignment (`calls.placement.aligned`); None if it
    does."""
    for matrix, actual in alignment.items():
        if actual % (required := record.facts["alignment"][matrix]):
            return (
                f"{matrix}'s rows begin at multiples of {actual} elements (leading dimension, batch stride, "
                f"address), not of {required}"
            )
    return None


def cluster_unit(record: KernelRecord) -> tuple[int, int]:
    """The thread blocks, along the kernel's own m and n, that its clusters chosen at run time are multiples
    of."""
    m, n = record.facts.get("cluster_multiple", (1, 1))
    return m, n


def splittings(record: KernelRecord, k: int) -> tuple[Tactic, ...]:
    """A kernel's ways to cut k that a first selection estimates: deterministic ones, a few splits."""
    if record.config["scheduler"] != "stream_k":
        return (plain(record.name),)
    k_tiles = -(-k // record.config["tile"][2])
    return _splittings(record.name, min(k_tiles, STREAM_K_SPLITS[-1]))


@functools.lru_cache(maxsize=4096)
def _splittings(kernel: str, most_splits: int) -> tuple[Tactic, ...]:
    whole = [Tactic(kernel, decomposition=how) for how in ("data_parallel", "stream_k")]
    split = [Tactic(kernel, decomposition="split_k", splits=n) for n in STREAM_K_SPLITS if n <= most_splits]
    return (*whole, *split)


def misfit_tiles_of_k(tactic: Tactic, record: KernelRecord, k: int) -> str | None:
    """Why a k range would be without a k tile; None if each has one at least."""
    tile_k = record.config["tile"][2]
    if tactic.splits > -(-k // tile_k):
        return f"k of {k} has fewer than {tactic.splits} tiles of {tile_k}"
    return None


def cluster_of(tactic: Tactic) -> tuple[int, int]:
    """The thread blocks of the tactic's cluster in the kernel's own m and n."""
    m, n = extents(tactic.cluster)
    return max(m, 1), max(n, 1)


def own_tiles(record: KernelRecord, m: int, n: int) -> tuple[int, int]:
    """The tiles of an m by n D, down and across for the kernel: if it swaps the operands, m is across."""
    rows, columns = (n, m) if record.config.get("swap_ab") else (m, n)
    tile_m, tile_n, _ = record.config["tile"]
    return -(-rows // tile_m), -(-columns // tile_n)


def misfit_powers(tactic: Tactic) -> str | None:
    """Why a kernel that counts by powers of two does not run as the tactic says; None if it does."""
    m, n = cluster_of(tactic)
    if any(side & (side - 1) for side in (m, n, tactic.splits)):
        return f"cluster {m}x{n} of {tactic.splits} splits has a number that is not a power of two"
    return None


def misfit_blocks(tactic: Tactic, record: KernelRecord) -> str | None:
    """Why a kernel whose clusters split k does not run as the tactic says; None if it does."""
    if tactic.splits > 1 and not record.facts["splits"]:
        return "its sums do not fit into its stages' memory, through which the k ranges are added"
    m, n = cluster_of(tactic)
    if (blocks := m * n * tactic.splits) > MOST_BLOCKS:
        return f"a cluster of {blocks} thread blocks, {tactic.splits} to a tile, is more than {MOST_BLOCKS}"
    return None


def misfit_room(blocks: int, device: DeviceProperties) -> str | None:
    """Why the device runs no cluster of `blocks` thread blocks, each of which takes an SM; None if it
    does."""
    if device.clusters_at_once(blocks) > 0:
        return None
    return (
        f"{device.name} with {device.sm_count} SMs, as this process sees it, runs no cluster of {blocks} "
        "thread blocks: no part of the GPU has as many SMs. A smaller cluster, or fewer splits, may run"
    )


def blocks_of(tactic: Tactic) -> int:
    """The thread blocks of a tactic's cluster, with those that split k in it."""
    m, n = cluster_of(tactic)
    return m * n * (1 if tactic.decomposition == "split_k" else tactic.splits)


def in_clusters(
    record: KernelRecord,
    grid: tuple[int, int],
    k: int = 0,
    splits: Iterable[int] = (1,),
    clusters: tuple[str, ...] = tuple(CLUSTERS),
) -> tuple[Tactic, ...]:
    """The tactics that a first selection estimates for a kernel whose clusters are chosen at run time:
    clusters no larger than the grid of tiles along the kernel's own m and n, and splits that leave k
    ranges of `LEAST_TILES` k tiles at least."""
    most = max(1, -(-k // record.config["tile"][2]) // LEAST_TILES)
    down, across = (min(side, MOST_BLOCKS) for side in grid)
    return _in_clusters(record.name, down, across, tuple(n for n in splits if n <= most), clusters)


@functools.lru_cache(maxsize=1 << 14)
def _in_clusters(
    kernel: str, down: int, across: int, splits: tuple[int, ...], clusters: tuple[str, ...]
) -> tuple[Tactic, ...]:
    sides = {cluster: extents(cluster) if cluster else (1, 1) for cluster in clusters}
    return tuple(
        with_splits(kernel, cluster, parts)
        for parts in splits
        for cluster, (m, n) in sides.items()
        if m <= down and n <= across and m * n * parts <= MOST_BLOCKS
    )


@functools.lru_cache(maxsize=1 << 14)
def with_splits(kernel: str, cluster: str, splits: int, decomposition: str = "heuristic") -> Tactic:
    return Tactic(kernel, cluster=cluster, splits=splits, decomposition=decomposition)


def misfit_invariant_split(tactic: Tactic) -> str | None:
    """Why the bits of a row depend on m, for a tactic that splits k: the number of splits depends on m."""
    if tactic.splits > 1:
        return f"it adds the sums of {tactic.splits} ranges of k, and how many ranges there are depends on m"
    return None
