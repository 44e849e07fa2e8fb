"""A model of how long a tactic of a lean kernel takes on sm_90a: to rank tactics, not to predict a clock.

Clusters of persistent thread blocks, one block to an SM, work through blocks of tiles in waves. 128 bytes of
k (a box) take about the longest of what they need: the tensor cores or the port of the shared memory, the
rows that a thread block asks TMA for, the barriers of a cluster. From tile to tile the producer runs ahead:
then what it waits for and what the consumers do, epilogue included, go side by side, but for the last tile.
A launch cannot beat HBM, of which a pair of SMs gets only so much, nor the tensor cores at the clock that the
GPU's power sustains. What does not overlap is added: launch, the last epilogue, the exchange of a split k's
sums.

Numbers that are not the hardware's own are fitted (benchmarks/fit/fit_lean_model.py) to the times of problems
drawn at random, m never a power of two, and of layers that are served (bf16, e4m3 -> bf16), on H200s, L2
cold, launches back to back. A sample of the times is in tests/runtime/data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.formats.types import bytes_of
from tilewright.selection.estimates import Estimate
from tilewright.selection.fitting import cluster_of, own_tiles

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # of k: a row of a box of TMA
INSTRUCTION_M = 64
BOX_ROWS = 64  # of an MN-major operand, side by side in a box
LINE = 64  # elements of D in a line of L2
ATOM_ROWS = 8  # of the swizzle: slices of a tile that CTAs load for each other are multiples
CLOCK_SHARE = 0.886  # of the highest clock, at which the numbers below count: 1755 of 1980 MHz

# Fitted. A box:
READ_CLOCKS = 2.56  # a row of A: a wgmma of few columns waits for its 64 rows from shared memory
READ_MN_CLOCKS = 1.59  # the same of an A that is MN-major
WRITTEN_CLOCKS = 0.433  # a row of either operand, which TMA writes there
STAGE_CLOCKS = 30.6  # barriers of a stage, in which the tensor cores have nothing to do
# Of the clocks that FP8's exact accumulation takes on paper, by the warpgroups of a tile: while one of two
# adds, the tensor cores work for the other; of those that take turns none does.
# Of 26 times of ten problems that the model then errs by 5 % with; one constant for all was 0.7 to 1.2 off.
PROMOTION_SHARE = {"one": 1.0, "two": 0.2, "turns": 6.0}
ISSUED_CLOCKS = 1.85  # a row that a thread block asks TMA for, for itself or for its cluster
MN_ISSUED_CLOCKS = 1.58  # a row of 64 elements of an MN-major operand that it asks for,
MN_ARRIVING_CLOCKS = 0.773  # and one that arrives, whoever asked for it: multicast saves less there
ASKEW_SHARE = 1.38  # of those clocks, where such rows do not begin at lines of 128 bytes
OUTSIDE_CLOCKS = 3.14  # one that is not there
SYNC_CLOCKS = {"pair": 317, "four": 86}  # a stage of clusters, by how many share an operand: the slowest
NORM = 6  # in which the needs of a box add up, and of HBM: nearly the longest of them

# One launch.
HBM_SHARE = 0.893  # of the rated bandwidth
AGAIN_SHARE = 0.417  # of an operand that several clusters read, which comes from HBM again: L2 has two halves
PAIR_BYTES_PER_CLOCK = 54.4  # two SMs from HBM: few, or few more than half of all, cannot use all of it
POWER_SHARE = {2: 0.873, 1: 0.823}  # of the tensor cores' rate at 1755 MHz, by bytes of an element: sustained
OVERLAP = 4.02  # the norm in which the main loop, HBM and power add up
START_CLOCKS = 2160  # launch, tensor maps, the first stage's loads
FULL_START_CLOCKS = 659  # more, where the next launch's thread blocks find no room beside this one's,
FULL_CLUSTER_SHARE = 0.035  # and so much of that again, where they have to find it for whole clusters:
FULL_FROM, FULL_TO = 0.45, 0.65  # of those that run at once; between them a part
EPILOGUE_BYTES_PER_CLOCK = 17.6  # of D, a warpgroup
SWAPPED_SHARE = 1.79  # of an epilogue's clocks, that one takes which turns its tile
PARTIAL_SHARE = 1.42  # that one takes whose rows are no whole lines of 128 bytes
CLUSTER_CLOCKS = 274  # of two barriers of a cluster, and its start
PART_CLOCKS = 366  # of a part of a split k: thread blocks of a cluster wait for the last of them
PIECE_CLOCKS = 431  # of a piece of a tile, whose parts are on their way from other SMs at once
COMBINE_CLOCKS = 3500  # of a second kernel, which adds up what parts of a split k have left in memory
COMBINE_BYTES_PER_CLOCK = 1500  # of those sums
SUMS_BYTES_PER_CLOCK = 27  # that a warpgroup lays into shared memory, or reads from another SM's


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel, by the mechanisms: what they share is worked out once.
    `learnt` corrects these estimates."""
    kernel = Kernel(record, problem, device)
    return lambda tactic: kernel.estimate(kernel.parts(tactic))


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


class _Cluster(NamedTuple):
    """What tactics of one cluster share, of a kernel on a problem."""

    m: int
    n: int
    blocks: int  # of tiles
    math: float  # of a box
    loads: float
    box: float  # these two together
    moved: float  # bytes from HBM


class Parts(NamedTuple):
    """Of a tactic's time. Clocks but where said."""

    m: int  # thread blocks of a cluster that have tiles of their own, down and across
    n: int
    splits: int  # parts of a tile's k, of the cluster too
    in_memory: bool  # or not: then a second kernel adds them up
    size: int  # thread blocks of a cluster
    blocks: int  # of tiles
    waves: _Waves
    boxes: int  # of k, that a thread block goes through for a tile
    math: float  # of a box
    loop: float  # of all tiles of the busiest thread block
    hbm: float
    power: float
    whole: float  # these three together
    added: float


class _Loads(NamedTuple):
    """What a thread block does for an operand, in rows of a box."""

    arriving: int
    issued: float  # that are there
    outside: float  # that it asks for, and that are not


class Kernel:
    """A kernel on a problem, in its own terms: where operands swap, m is n. Clocks but where said."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        config = record.config
        tile_m, tile_n, tile_k = config["tile"]
        rows, columns = (problem.n, problem.m) if config["swap_ab"] else (problem.m, problem.n)
        size = self.size = bytes_of(problem.a)
        self.problem, self.device = problem, device
        self._clusters: dict[str, _Cluster] = {}
        self.swapped = bool(config["swap_ab"])
        self.pingpong = config["schedule"] == "pingpong"
        mn_a, mn_b = problem.layout[0] == "n", problem.layout[1] == "t"
        self.mn_a, self.mn_b = (mn_b, mn_a) if self.swapped else (mn_a, mn_b)
        self.extents, self.tile = (rows, columns), (tile_m, tile_n)
        self.down, self.across = own_tiles(record, problem.m, problem.n)
        self.boxes = tile_k * size // BOX_BYTES  # of a stage
        self.depth = self.boxes * record.facts.get("stages", 1)  # of the ring of stages, in boxes
        self.stages = ceil(problem.k / tile_k)
        self.wgmma = tile_m / INSTRUCTION_M * 2 * tile_n  # a box: four instructions of n / 2 clocks
        self.math_more = STAGE_CLOCKS / self.boxes
        elements = tile_m * tile_n
        warpgroups = 1 if self.pingpong or tile_m == INSTRUCTION_M else 2  # that have a tile between them
        if size == 1 and not config["fast_accum"]:  # 128 lanes add the sums of a box to a second set
            how = "turns" if self.pingpong else "two" if warpgroups == 2 else "one"
            self.math_more += PROMOTION_SHARE[how] * elements / 128
        outputs = bytes_of(problem.d) * (2 if problem.c else 1)
        self.epilogue = elements * outputs / EPILOGUE_BYTES_PER_CLOCK / warpgroups
        self.epilogue *= SWAPPED_SHARE if config["swap_ab"] else PARTIAL_SHARE if tile_n % LINE else 1
        self.sums = elements * 4 / SUMS_BYTES_PER_CLOCK / warpgroups
        self.pieces = record.facts.get("pieces", 1)
        self.hertz = device.clock_hz * CLOCK_SHARE
        self.power = self.wgmma / POWER_SHARE[size] / device.sm_count  # of a box of a tile
        k_bytes = problem.batch * problem.k * size
        self.bytes_a, self.bytes_b = rows * k_bytes, columns * k_bytes

    def parts(self, tactic: Tactic) -> Parts:
        """What a tactic's time is made of."""
        cluster = self._clusters.get(tactic.cluster) or self._cluster(tactic)
        m, n, blocks = cluster.m, cluster.n, cluster.blocks
        splits, in_memory = tactic.splits, tactic.decomposition == "split_k"
        size = m * n
        if in_memory:  # the parts of a tile meet there, not in a cluster
            blocks *= splits
        else:
            size *= splits
        at_once = max(1, self.device.clusters_at_once(size))  # 0: `misfit_device` refuses it
        waves = _Waves(at_once, *divmod(blocks, at_once))
        boxes = -(-self.stages // splits) * self.boxes
        exchange = self._exchange(splits) if splits > 1 and not in_memory else 0.0
        loop = boxes * cluster.box
        if waves.before:
            consumed = boxes * cluster.math + self.epilogue + exchange
            if self.pingpong:  # one tile is stored while the other warpgroup multiplies
                consumed = max(boxes * cluster.math, consumed / 2)
            loop += waves.before * max(boxes * cluster.loads, consumed)
        hbm = cluster.moved / blocks * self._bytes(waves, size)
        power = self.power * boxes * blocks * size
        whole = (loop**OVERLAP + hbm**OVERLAP + power**OVERLAP) ** (1 / OVERLAP)
        full = min(1.0, max(0.0, (blocks / at_once - FULL_FROM) / (FULL_TO - FULL_FROM)))
        added = START_CLOCKS + FULL_START_CLOCKS * full + self.epilogue + exchange
        if size > 1:
            added += CLUSTER_CLOCKS + FULL_CLUSTER_SHARE * FULL_START_CLOCKS * full
        if in_memory:
            sums = splits * self.problem.batch * self.problem.m * self.problem.n * 4
            added += COMBINE_CLOCKS + sums / COMBINE_BYTES_PER_CLOCK
        return Parts(
            m, n, splits, in_memory, size, blocks, waves, boxes, cluster.math, loop, hbm, power, whole, added
        )

    def estimate(self, parts: Parts, by: float = 1.0) -> Estimate:
        """Seconds of what the mechanisms say, multiplied by a number."""
        count, loop = parts.waves.before + 1, parts.loop
        math = parts.math * parts.boxes * count
        bound = "hbm" if parts.hbm > loop else "math" if math > 0.6 * loop else "fill"
        whole, added = parts.whole / self.hertz * by, parts.added / self.hertz * by
        return Estimate(whole + added, count, bound, whole, added)

    def _exchange(self, splits: int) -> float:
        """Of the sums of a cluster that splits k: each thread block adds up its share of the pieces."""
        pieces = ceil(self.pieces / splits) * (PIECE_CLOCKS + splits * self.sums / self.pieces)
        return float(self.sums + pieces + PART_CLOCKS * splits)

    def _cluster(self, tactic: Tactic) -> _Cluster:
        """What tactics of one cluster share."""
        m, n = cluster_of(tactic)
        # Multicast: thread blocks of a cluster in one row share A, in one column B.
        a = _loads(self.tile[0], self.extents[0], n, self.mn_a)
        b = _loads(self.tile[1], self.extents[1], m, self.mn_b)
        issued = OUTSIDE_CLOCKS * (a.outside + b.outside)
        issued += _clocks(a, self.mn_a, self.extents[0]) + _clocks(b, self.mn_b, self.extents[1])
        port = (READ_MN_CLOCKS if self.mn_a else READ_CLOCKS) * self.tile[0]
        port += WRITTEN_CLOCKS * (a.arriving + b.arriving)
        math = max(self.wgmma, port) + self.math_more
        sync = 0.0 if m * n == 1 else SYNC_CLOCKS["four" if 4 in (m, n) else "pair"] / self.boxes
        loads = issued**NORM + sync**NORM
        moved: float = self.problem.bytes
        if self.across > n:
            moved += AGAIN_SHARE * self.bytes_a
        if self.down > m:
            moved += AGAIN_SHARE * self.bytes_b
        blocks = -(-self.down // m) * -(-self.across // n) * self.problem.batch
        found = _Cluster(m, n, blocks, math, loads ** (1 / NORM), (math**NORM + loads) ** (1 / NORM), moved)
        return self._clusters.setdefault(tactic.cluster, found)

    def _bytes(self, waves: _Waves, size: int) -> float:
        """Of as many bytes from HBM as a cluster each, for all of them."""
        device = self.device
        known = self.hertz / (device.memory_bandwidth * HBM_SHARE), device.sm_count
        clocks = waves.last * _byte(waves.last * size, *known)
        if waves.before:
            clocks += waves.before * waves.at_once * _byte(waves.at_once * size, *known)
        return clocks


@cache
def _byte(busy: int, whole: float, sm_count: int) -> float:
    """Of a byte from HBM while so many thread blocks work, each alone in a pair of SMs if they can be."""
    pairs = busy if busy <= sm_count / 2 else busy / 2
    return float((whole**NORM + (pairs * PAIR_BYTES_PER_CLOCK) ** -NORM) ** (1 / NORM))


def _clocks(loads: _Loads, mn_major: bool, extent: int) -> float:
    """Of the rows that are there."""
    if not mn_major:
        return ISSUED_CLOCKS * loads.issued
    clocks = MN_ISSUED_CLOCKS * loads.issued + MN_ARRIVING_CLOCKS * loads.arriving
    return clocks * (ASKEW_SHARE if extent % BOX_ROWS else 1)  # packed, as far as is known


@cache
def _loads(tile: int, extent: int, sharers: int, mn_major: bool) -> _Loads:
    """Of tiles of an operand, each loaded by so many thread blocks together; the last or only one is meant.

    One that is alone loads what there is, in slices of whole atoms (`Slices`, sm90/cluster.hpp). MN-major,
    slices are of k, and rows lie beside one another in boxes.
    """
    arriving, there = tile, extent - (ceil(extent / tile) - 1) * tile
    if mn_major:
        there = ceil(there / BOX_ROWS) * BOX_ROWS
        return _Loads(arriving, there / sharers, (arriving - there) / sharers)
    if extent <= tile:
        slices = ceil(extent / (ATOM_ROWS * sharers)) * ATOM_ROWS * sharers
        arriving = slices if sharers > 1 and slices <= tile else extent
    outside = min(arriving - there, arriving / sharers)
    return _Loads(arriving, arriving / sharers - outside, outside)
