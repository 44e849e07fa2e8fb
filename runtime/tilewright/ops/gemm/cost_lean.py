"""A model of how long a tactic of a lean kernel takes on sm_90a: to rank tactics, not to predict a clock.

Clusters of persistent thread blocks, one block to an SM, work through blocks of tiles in waves. 128 bytes of
k (a box) take about the longest of what they need: the tensor cores, what an SM takes in, L2, the barriers of
a cluster. From tile to tile the producer runs ahead: then what it waits for and what the consumers do,
epilogue included, go side by side, but for the last tile. A launch cannot beat HBM, of which a pair of SMs
gets only so much. What does not overlap is added: launch, the last epilogue, the exchange of a split k's
sums.

Numbers that are not the hardware's own are fitted by least squares (benchmarks/fit_lean_model.py) to the
times of problems drawn at random, m never a power of two, and of layers that are served (bf16, e4m3 -> bf16),
on H200s, L2 cold, launches back to back. Of problems of another seed, the model's first is 4 % slower in
geomean than the fastest of some 150 that were timed to 3 %, so that a part of it is the fastest's luck. A
sample of the times is in tests/runtime/data.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.fitting import cluster_of
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # of k: a row of a box of TMA
STEPS = 4  # wgmma instructions of a box, for each 64 rows
INSTRUCTION_M = 64
CLOCK_SHARE = 0.886  # of the highest clock, at which the numbers below count: 1755 of 1980 MHz

# Fitted. A box:
WRITTEN_CLOCKS = 1.36  # a row's 128 bytes, which TMA writes and wgmma reads, of the shared memory's port
STAGE_CLOCKS = 65  # barriers of a stage, in which the tensor cores have nothing to do
PROMOTION_SHARE = 1.8  # of the clocks that FP8's exact accumulation takes on paper; CUTLASS's kernels have it
TAKEN_CLOCKS = 1.62  # a row's 128 bytes on their way into an SM, shared or not
L2_BYTES_PER_CLOCK = 6790  # L2 to all SMs, what a cluster shares once
SYNC_CLOCKS = {"pair": 283, "four": 177, "both": 326}  # a stage, of clusters by what they share: the slowest
BOX_NORM = 6  # in which they add up: nearly the longest of them

# One launch.
HBM_SHARE = 0.834  # of the rated bandwidth
AGAIN_SHARE = 0.196  # of an operand that several clusters read, which comes from HBM again: L2 has two halves
PAIR_BYTES_PER_CLOCK = 51.6  # two SMs from HBM: few, or few more than half of all, cannot use all of it
OVERLAP = 2.98  # the norm in which the main loop and HBM add up
START_CLOCKS = 2950  # launch, tensor maps, the first stage's loads
FULL_START_CLOCKS = 1970  # more, where every SM is taken: the next launch cannot prepare beside this one
EPILOGUE_BYTES_PER_CLOCK = 26.8  # of D, an SM
CLUSTER_CLOCKS = 326  # of two barriers of a cluster, and its start
EXCHANGE_CLOCKS = 733
LAID_BYTES_PER_CLOCK = 54.6  # sums that a thread block lays into its shared memory
PIECE_CLOCKS = 236  # of a piece of a tile, whose parts are on their way from other SMs at once
ADDED_BYTES_PER_CLOCK = 53.3  # sums read from other SMs' shared memory


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    return _Kernel(record, problem, device).weigh


class _Cluster(NamedTuple):
    """A tactic's clusters: m x n thread blocks to as many tiles, for each of `splits` parts of k."""

    m: int
    n: int
    splits: int

    @property
    def size(self) -> int:
        return self.m * self.n * self.splits


class _Waves(NamedTuple):
    """How clusters go through blocks of tiles, one block each at a time."""

    at_once: int  # clusters
    full: int  # waves that leave none idle
    rest: int  # clusters of one that does

    @property
    def last(self) -> int:
        """Clusters of the last wave."""
        return self.rest or self.at_once

    @property
    def before(self) -> int:
        """Waves before the last one, all of them full."""
        return self.full if self.rest else self.full - 1


class _Kernel:
    """A kernel on a problem, in its own terms: where operands swap, m is n. Clocks but where said."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        tile_m, tile_n, tile_k = record.config["tile"]
        rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
        self.problem, self.device = problem, device
        self.pingpong = record.config["schedule"] == "pingpong"
        self.tile_m, self.tile_n = tile_m, tile_n
        self.down, self.across = ceil(rows / tile_m), ceil(columns / tile_n)  # tiles
        # Rows that exist, of a tile that is the only one in its direction.
        self.held_m, self.held_n = min(tile_m, rows), min(tile_n, columns)
        self.boxes = tile_k * bytes_of(problem.a) // BOX_BYTES  # of a stage
        self.stages = ceil(problem.k / tile_k)
        self.math = _math_clocks(record, bytes_of(problem.a), self.boxes)  # of a box
        self.own_power = self.math**BOX_NORM
        self.taken_power = (TAKEN_CLOCKS * (tile_m + tile_n)) ** BOX_NORM
        elements = tile_m * tile_n
        outputs = bytes_of(problem.d) * (2 if problem.c else 1)
        self.epilogue = elements * outputs / EPILOGUE_BYTES_PER_CLOCK
        self.laid = EXCHANGE_CLOCKS + elements * 4 / LAID_BYTES_PER_CLOCK
        self.pieces = record.facts.get("pieces", 1)
        self.added = elements * 4 / self.pieces / ADDED_BYTES_PER_CLOCK  # of a part of a piece
        self.hertz = device.clock_hz * CLOCK_SHARE
        size = problem.batch * problem.k * bytes_of(problem.a)
        self.bytes_a, self.bytes_b = rows * size, columns * size

    def weigh(self, tactic: Tactic) -> Estimate:
        cluster = _Cluster(*cluster_of(tactic), tactic.splits)
        m, n, splits = cluster
        blocks = -(-self.down // m) * -(-self.across // n) * self.problem.batch
        at_once = self.device.clusters_at_once(cluster.size)
        waves = _Waves(at_once, *divmod(blocks, at_once))
        exchange = self._exchange(splits) if splits > 1 else 0.0
        boxes = -(-self.stages // splits) * self.boxes
        loop = self._loop(cluster, waves, boxes, exchange)
        hbm = self._hbm(cluster, waves, blocks)
        whole = (loop**OVERLAP + hbm**OVERLAP) ** (1 / OVERLAP)
        added = START_CLOCKS + self.epilogue + exchange
        added += FULL_START_CLOCKS * min(1.0, blocks * cluster.size / self.device.sm_count)
        if cluster.size > 1:
            added += CLUSTER_CLOCKS
        count = waves.before + 1
        inside = "math" if self.math * boxes * count > 0.6 * loop else "fill"
        bound = "hbm" if hbm > loop else inside
        return Estimate((whole + added) / self.hertz, count, bound, whole / self.hertz, added / self.hertz)

    def _exchange(self, splits: int) -> float:
        """Of the sums of a cluster that splits k: each thread block adds up its share of the pieces."""
        return float(self.laid + ceil(self.pieces / splits) * (PIECE_CLOCKS + splits * self.added))

    def _loop(self, cluster: _Cluster, waves: _Waves, boxes: int, exchange: float) -> float:
        """Of all tiles of the busiest thread block, but for the last one's epilogue."""
        m, n, _ = cluster
        # Multicast: thread blocks of a cluster in one row share A, in one column B.
        l2 = (self.held_m / n + self.held_n / m) * BOX_BYTES * cluster.size / L2_BYTES_PER_CLOCK
        sync = (_sync_clocks(m, n) / self.boxes) ** BOX_NORM

        def loads(busy: int) -> float:
            """Of a box, while so many clusters work; to the power of the norm."""
            return float(self.taken_power + (l2 * busy) ** BOX_NORM + sync)

        loop = boxes * float((self.own_power + loads(waves.last)) ** (1 / BOX_NORM))
        if waves.before:
            produced = boxes * loads(waves.at_once) ** (1 / BOX_NORM)
            consumed = boxes * self.math + self.epilogue + exchange
            if self.pingpong:  # one tile is stored while the other warpgroup multiplies
                consumed = max(boxes * self.math, consumed / 2)
            loop += waves.before * max(produced, consumed)
        return loop

    def _hbm(self, cluster: _Cluster, waves: _Waves, blocks: int) -> float:
        """Of each matrix once, and of what several clusters read a part again."""
        moved: float = self.problem.bytes
        if self.across > cluster.n:
            moved += AGAIN_SHARE * self.bytes_a
        if self.down > cluster.m:
            moved += AGAIN_SHARE * self.bytes_b
        clocks = waves.last * self._byte(waves.last * cluster.size)
        if waves.before:
            clocks += waves.before * waves.at_once * self._byte(waves.at_once * cluster.size)
        return clocks * moved / blocks

    def _byte(self, busy: int) -> float:
        """Of a byte from HBM while so many thread blocks work, each alone in a pair of SMs if they can be."""
        pairs = busy if busy <= self.device.sm_count / 2 else busy / 2
        whole = self.hertz / (self.device.memory_bandwidth * HBM_SHARE)
        return max(whole, 1 / (pairs * PAIR_BYTES_PER_CLOCK))


def _sync_clocks(m: int, n: int) -> float:
    if m * n == 1:
        return 0.0
    return SYNC_CLOCKS["both" if m > 1 and n > 1 else "pair" if m * n == 2 else "four"]


def _math_clocks(record: KernelRecord, size: int, boxes: int) -> float:
    """Of a box of a tile: of the tensor cores, or of the shared memory's port where the tile is narrow."""
    config = record.config
    tile_m, tile_n, _ = config["tile"]
    math = max(STEPS * tile_m / INSTRUCTION_M * tile_n / 2, WRITTEN_CLOCKS * (tile_m + tile_n))
    if size == 1 and not config["fast_accum"]:
        math += PROMOTION_SHARE * tile_m * tile_n / 128  # 128 lanes add the sums of a box to a second set
    return float(math + STAGE_CLOCKS / boxes)
