"""The kernels of sm_90, which have a mainloop of our own: what they take, and how many an SM holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from tilewright.ops.blockscaled_gemm.problem import Problem
from tilewright.ops.common.tactics import Tactic, plain
from tilewright.table import KernelRecord

SM_BYTES = 228 * 1024  # of shared memory
BLOCK_BYTES = 1024  # of it, that the system takes of each thread block's
# Parts of k: the thread blocks of one cluster each sum a part, and add them up through its shared memory.
SPLITS = (1, 2, 4, 8)
# Each tile has a thread block, of which the grid takes no more along y and z
# (tilewright/blockscaled_gemm/sm90/kernel.hpp, can_implement).
MOST_BLOCKS = 65535


def is_hopper(record: KernelRecord) -> bool:
    return record.arch.startswith("sm_90")


def resident(tile: Sequence[int], shared_bytes: int) -> int:
    """Thread blocks that an SM holds at once: by its memory, and by registers, of which a thread takes about
    100, and more where N is 128."""
    m, n, _ = tile
    most = max(1, 128 // m) if n == 128 else {64: 4, 128: 2}.get(m, 1)
    return max(1, min(most, SM_BYTES // (shared_bytes + BLOCK_BYTES)))


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the grid holds the tiles, else the reason."""
    tile_m, tile_n, _ = record.config["tile"]  # along n and m: the operands are swapped
    for what, blocks in (
        ("m", -(-problem.m // tile_n)),
        ("n", -(-problem.n // tile_m)),
        ("the batch", problem.batch * SPLITS[-1]),
    ):
        if blocks > MOST_BLOCKS:
            return f"{what} takes {blocks} thread blocks; {MOST_BLOCKS} are possible"
    return None


def misfit_splits(tactic: Tactic) -> str | None:
    """None where the kernel cuts k as the tactic says, else the reason."""
    if tactic.splits in SPLITS and tactic.decomposition != "stream_k":
        return None
    return f"it splits k over a cluster, in {', '.join(map(str, SPLITS))} parts"


def candidates(record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
    """The kernel with every split that leaves each part a tile of k."""
    k_tiles = -(-problem.k // record.config["tile"][2])
    return _split(record.name, min(k_tiles, SPLITS[-1]))


@functools.lru_cache(maxsize=4096)
def _split(kernel: str, most: int) -> tuple[Tactic, ...]:
    return tuple(replace(plain(kernel), splits=splits) for splits in SPLITS if splits <= most)
