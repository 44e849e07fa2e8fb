"""How a tactic cuts a block-scaled product into work for SMs: what the cost models have in common."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.problem import BLOCK, Problem, c_type, matrix_bytes
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord
from tilewright.types import bits

MIN_STREAM_K_TILES = 8  # k tiles that CUTLASS gives a stream-K unit at least
L2_SHARE_FOR_OPERANDS = 0.7  # of L2 that holds operands until they are read again; measured on an H200
# Of L2 that holds the smaller operand while the other one streams past it: FlashInfer 2303 on a B300, k of
# 28672, loses 4 percent from m of 4096 (66 MB of L2's 126) to 8192, and with k of 8192 nothing.
L2_SHARE_FOR_ONE = 0.6
SCALE_ROWS = 128  # rows of scale factors that a tile loads at least: they lie in blocks of so many


class Work(NamedTuple):
    """A problem in the kernel's own terms: where operands swap, its rows are the caller's columns."""

    rows: int
    columns: int
    row_bits: int  # of an element of the operand that has the rows
    column_bits: int
    tiles_m: int
    tiles_n: int
    k_tiles: int
    batch: int

    @property
    def tiles(self) -> int:
        return self.tiles_m * self.tiles_n * self.batch

    def clustered(self, cluster_m: int, cluster_n: int) -> Work:
        """With the tiles of border clusters that do not exist: their SMs have nothing else to do."""
        return self._replace(
            tiles_m=ceil(self.tiles_m / cluster_m) * cluster_m,
            tiles_n=ceil(self.tiles_n / cluster_n) * cluster_n,
        )


class Share(NamedTuple):
    """What the busiest SM does: whole waves, then a last one on `busy` SMs."""

    full_waves: int
    full_k_tiles: int  # of each of the waves
    busy: int
    last_k_tiles: int
    epilogues: float
    parts: int  # that a tile is cut into at most


def cut(record: KernelRecord, problem: Problem) -> Work:
    tile_m, tile_n, tile_k = record.config["tile"]
    rows, columns, first, second = problem.m, problem.n, problem.a, problem.b
    if record.config["swap_ab"]:
        rows, columns, first, second = columns, rows, second, first
    return Work(
        rows, columns, bits(first), bits(second),
        ceil(rows / tile_m), ceil(columns / tile_n), ceil(problem.k / tile_k), problem.batch,
    )  # fmt: skip


def share(tactic: Tactic, work: Work, sms: int) -> Share:
    """The busiest SM's part of a persistent kernel on `sms` SMs, one thread block to each."""
    parts = tactic.splits if tactic.decomposition == "split_k" else 1
    if tactic.decomposition != "stream_k" or work.tiles % sms == 0:
        full, rest = divmod(work.tiles * parts, sms)
        k_tiles = ceil(work.k_tiles / parts)
        return Share(full, k_tiles, rest, k_tiles, full + (rest > 0), parts)
    # CUTLASS gives the last full wave and the rest to stream-K units.
    full = max(0, work.tiles // sms - 1)
    rest = work.tiles - full * sms
    units = min(sms, max(1, rest * work.k_tiles // MIN_STREAM_K_TILES))
    k_tiles = ceil(rest * work.k_tiles / units)
    parts = 1 if rest >= units and rest % units == 0 else ceil(units / rest) + 1
    # A unit that does not start with a tile works on one tile more than it could fill.
    epilogues = full + (k_tiles / work.k_tiles + 1 if parts > 1 else ceil(k_tiles / work.k_tiles))
    return Share(full, work.k_tiles, units, k_tiles, epilogues, parts)


def loaded_bytes(
    work: Work, tile: Sequence[int], block: int, cluster_m: int, cluster_n: int
) -> tuple[float, float]:
    """Bytes of a k tile that one thread block takes from L2, and bytes of zeros for rows that do not exist.

    Multicast: thread blocks of a cluster in one row share the rows' operand, in one column the other.
    Scale factors come for `SCALE_ROWS` rows or more, whose padding exists.
    """
    tile_m, tile_n, tile_k = tile
    held_m, held_n = work.rows / work.tiles_m, work.columns / work.tiles_n  # that exist, of a tile
    row, column = work.row_bits / 8 / cluster_n, work.column_bits / 8 / cluster_m
    scales = max(tile_m, SCALE_ROWS) / cluster_n + max(tile_n, SCALE_ROWS) / cluster_m
    loaded = (held_m * row + held_n * column + scales / block) * tile_k
    return loaded, ((tile_m - held_m) * row + (tile_n - held_n) * column) * tile_k


def memory_bytes(work: Work, problem: Problem, tile: Sequence[int], sms: int, l2_bytes: int) -> float:
    """Bytes through memory: each matrix once where the operands stay in L2, more where waves reread them."""
    a = matrix_bytes(problem.a, problem.m, problem.k)
    b = matrix_bytes(problem.b, problem.n, problem.k)
    operands = problem.batch * (a + b)
    outputs = problem.bytes - operands
    if operands <= l2_bytes * L2_SHARE_FOR_OPERANDS or min(a, b) <= l2_bytes * L2_SHARE_FOR_ONE:
        return operands + outputs
    # A wave covers a block of tiles about as wide as high, and reads its rows and columns once.
    waves = max(1.0, work.tiles / sms)
    element = (work.row_bits + work.column_bits) / 16 + 1 / BLOCK[problem.a]
    reread = waves * 2 * sqrt(tile[0] * tile[1] * min(work.tiles, sms)) * problem.k * element
    return max(operands, min(reread, operands * waves)) + outputs


def epilogue_bytes(problem: Problem, tile: Sequence[int]) -> float:
    """Of D, and of C where it is added, for one tile."""
    width = bits(problem.d) + (bits(c_type(problem.d)) if problem.c else 0)
    return float(tile[0] * tile[1] * width / 8)


def norm(power: float, *terms: float) -> float:
    """What takes the longest where `power` is high, the sum where it is 1."""
    return float(sum(term**power for term in terms) ** (1 / power))


def memory_bytes_per_clock(device: DeviceProperties, reached: float) -> float:
    return device.memory_bandwidth * reached / device.clock_hz
