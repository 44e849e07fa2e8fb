"""A model of how long a tactic of a lean kernel takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. Clusters of them work through blocks of tiles in waves. The unit
of k is a box: the 128 bytes of k that one TMA box is wide.

- A box takes about as long as the slowest of: the tensor cores or the port of shared memory, the rows for
  which a thread block asks TMA, and the barriers of a cluster.
- Between tiles the producer runs ahead. So a tile takes as long as its loads, or as its multiplication and
  epilogue, whichever is longer. The last tile cannot overlap with a next one.
- A launch can be faster neither than HBM, of whose bandwidth a pair of SMs gets a limited part, nor than the
  tensor cores at the clock that the GPU's power limit sustains.
- What does not overlap is added: the launch, the last epilogue, and the reduction of a split k.

Numbers that are not the hardware's own are fitted (benchmarks/fit/fit_lean_model.py) to the times of random
problems, with m never a power of two, and of layers in production models (bf16; e4m3 -> bf16), on H200s, with
a cold L2 and back-to-back launches. A sample of the times is in tests/runtime/data. `clocks` below are SM
clocks.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, gcd
from typing import Any, NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.formats.types import bytes_of
from tilewright.selection.estimates import Estimate
from tilewright.selection.fitting import cluster_of, own_tiles

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # bytes of k in a row of a TMA box
INSTRUCTION_M = 64  # rows of a wgmma
BOX_ROWS = 64  # adjacent rows of an MN-major operand in a box
LINE = 64  # elements of D in a 128-byte line of L2
ATOM_ROWS = 8  # rows of a swizzle atom; the slices that a multicast loads are multiples of it
LANES = 128  # F32 additions of an SM in a clock
CLOCK_SHARE = 0.886  # share of the highest clock at which all clocks here count: 1755 of 1980 MHz

# One box (fitted).
READ_CLOCKS = 2.56  # clocks of the shared-memory port for a row of a K-major A
READ_MN_CLOCKS = 1.59  # clocks of the shared-memory port for a row of an MN-major A
WRITTEN_CLOCKS = 0.433  # clocks of the shared-memory port for a row of A or B that TMA writes
STAGE_CLOCKS = 30.6  # clocks of a stage's barriers, in which the tensor cores idle
# What exact FP8 accumulation costs, as a share of the clocks that its additions take on paper. "one": one
# warpgroup has the tile. "two": while one of two warpgroups adds, the other multiplies. "turns": warpgroups
# take turns (ping-pong), and the tensor cores idle. From 26 times of ten problems; the model's error is 5 %.
PROMOTION_SHARE = {"one": 1.0, "two": 0.2, "turns": 6.0}
ISSUED_CLOCKS = 1.85  # clocks for a row that a thread block asks of TMA, for itself or for its cluster
MN_ISSUED_CLOCKS = 1.58  # clocks for a row of 64 elements of an MN-major operand that a thread block asks for
MN_ARRIVING_CLOCKS = 0.773  # clocks for each such row that arrives, whichever thread block asked for it
MISALIGNED_SHARE = 1.38  # factor on these clocks if such rows do not begin at 128-byte lines
STRADDLING_SHARE = 0.6  # share of these clocks more for a row of a K-major operand that straddles two lines
OUTSIDE_CLOCKS = 3.14  # clocks for a row beyond the matrix that a thread block asks for
SYNC_CLOCKS = {"pair": 317, "four": 86}  # clocks of a cluster's barriers in a stage, by sharers of an operand
NORM = 6  # p of the p-norm that combines a box's terms, and HBM's limits: close to their maximum

# One launch (fitted).
HBM_SHARE = 0.893  # share of the rated HBM bandwidth that is reached
REREAD_SHARE = 0.417  # share of an operand that HBM delivers again if several clusters read it: L2 is halved
PAIR_BYTES_PER_CLOCK = 54.4  # bytes that HBM delivers to a pair of SMs in a clock
POWER_SHARE = {2: 0.873, 1: 0.823}  # sustained share of the tensor cores' rate, by bytes of an element
OVERLAP = 4.02  # p of the p-norm that combines main loop, HBM and power
START_CLOCKS = 2160  # clocks of launch, tensor maps, and the first stage's loads
FULL_START_CLOCKS = 659  # clocks more if the next launch's thread blocks do not fit on the SMs beside these
FULL_CLUSTER_SHARE = 0.035  # share of FULL_START_CLOCKS that is added again if whole clusters must fit
FULL_FROM, FULL_TO = 0.45, 0.65  # occupied share of SMs at which FULL_START_CLOCKS begin, and count in full
EPILOGUE_BYTES_PER_CLOCK = 17.6  # bytes of D (and C) that a warpgroup stores (and loads) in a clock
SWAPPED_SHARE = 1.79  # factor on the epilogue's clocks if it transposes its tile
PARTIAL_SHARE = 1.42  # factor on the epilogue's clocks if a tile's rows are not whole 128-byte lines
CLUSTER_CLOCKS = 274  # clocks of a cluster's start and of two of its barriers
SPLIT_CLOCKS = 366  # clocks for each k range of a split k: the cluster waits for its slowest thread block
SUBTILE_CLOCKS = 431  # clocks for each epilogue subtile that is gathered from the other SMs of a cluster
COMBINE_CLOCKS = 3500  # clocks of the second kernel, which adds the sums of a split k from memory
# The same for kernels with a split form, whose first kernel is shorter, too. From h200_split_times.csv.bz2.
SPLIT_FORM_CLOCKS = 2100
CLUSTER_FORM_CLOCKS = 930  # clocks that a split form saves where a cluster adds the sums of a split k
COMBINE_BYTES_PER_CLOCK = 1500  # bytes of sums that the second kernel adds in a clock
SUMS_BYTES_PER_CLOCK = 27  # bytes of sums that a warpgroup moves to or from shared memory in a clock


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The mechanisms' estimates for the tactics of one kernel, which `learnt` corrects. Terms that the
    tactics share are computed once."""
    kernel = Kernel(record, problem, device)
    return lambda tactic: kernel.estimate(kernel.terms(tactic))


class Waves(NamedTuple):
    """The waves in which clusters compute blocks of tiles, one block each at a time."""

    at_once: int  # clusters that run at once
    full: int  # waves in which every cluster has a block
    rest: int  # blocks of the partial wave; 0 if there is none

    @property
    def last(self) -> int:
        """Busy clusters of the last wave."""
        return self.rest or self.at_once

    @property
    def before(self) -> int:
        """Waves before the last one, all of them full."""
        return self.full if self.rest else self.full - 1


class _ClusterTerms(NamedTuple):
    """Terms that the tactics of one cluster shape share. Clocks are for one box."""

    m: int
    n: int
    blocks: int  # blocks of tiles: a tile for each of the m x n thread blocks
    math: float  # clocks of the tensor cores or of the shared-memory port, and barriers
    loads: float  # clocks of TMA and of the cluster's barriers
    box: float  # clocks of both together
    hbm_bytes: float  # bytes that HBM delivers in the whole launch


class Terms(NamedTuple):
    """The terms of a tactic's estimated time, in clocks unless a comment says otherwise."""

    m: int  # thread blocks of a cluster, along m, that have tiles of their own
    n: int  # the same along n
    splits: int  # k ranges of a tile
    in_memory: bool  # whether a second kernel adds the sums of the k ranges; else a cluster does
    size: int  # thread blocks of a cluster
    blocks: int  # blocks of tiles, for each k range if these are added in memory
    waves: Waves
    boxes: int  # boxes of k in a k range
    math: float  # the tensor cores' clocks for one box
    loop: float  # main loops of all tiles of the busiest thread block
    hbm: float  # HBM's limit for the launch
    power: float  # the power limit for the launch
    whole: float  # loop, hbm and power together
    added: float  # what does not overlap with them


class Loads(NamedTuple):
    """The rows of an operand's box that concern one thread block."""

    arriving: int  # rows that arrive in its shared memory
    issued: float  # rows of the matrix that it asks for
    outside: float  # rows beyond the matrix that it asks for


class Kernel:
    """A kernel on a problem. Rows and columns are the kernel's own: with swap_ab, rows are the caller's n."""

    longer: Any = staticmethod(max)
    """The longer of two times."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        config = record.config
        tile_m, tile_n, tile_k = config["tile"]
        rows, columns = (problem.n, problem.m) if config["swap_ab"] else (problem.m, problem.n)
        size = self.size = bytes_of(problem.a)
        self.problem, self.device = problem, device
        self._clusters: dict[str, _ClusterTerms] = {}
        self.split_form = bool(config.get("split_form"))
        self.combine = SPLIT_FORM_CLOCKS if self.split_form else COMBINE_CLOCKS
        self.swapped = bool(config["swap_ab"])
        self.pingpong = config["schedule"] == "pingpong"
        mn_a, mn_b = problem.layout[0] == "n", problem.layout[1] == "t"
        self.mn_a, self.mn_b = (mn_b, mn_a) if self.swapped else (mn_a, mn_b)
        self.extents, self.tile = (rows, columns), (tile_m, tile_n)
        self.down, self.across = own_tiles(record, problem.m, problem.n)
        self.boxes = tile_k * size // BOX_BYTES  # boxes of a stage
        self.depth = self.boxes * record.facts.get("stages", 1)  # boxes of all stages
        self.k_tiles = ceil(problem.k / tile_k)
        self.wgmma = tile_m / INSTRUCTION_M * 2 * tile_n  # clocks of a box: four wgmmas of n / 2 clocks
        self.math_overhead = STAGE_CLOCKS / self.boxes
        elements = tile_m * tile_n
        warpgroups = 1 if self.pingpong or tile_m == INSTRUCTION_M else 2  # warpgroups that share a tile
        if size == 1 and not config["fast_accum"]:  # each box's sums are added to a second set of registers
            how = "turns" if self.pingpong else "two" if warpgroups == 2 else "one"
            self.math_overhead += PROMOTION_SHARE[how] * elements / LANES
        outputs = bytes_of(problem.d) * (2 if problem.c else 1)
        # A gated activation takes as long as storing half saves. So the choice for 40 problems on an H200 was
        # 4.4 % behind the fastest tactic at most; with half of these clocks, 9.6 %.
        self.epilogue = elements * outputs / EPILOGUE_BYTES_PER_CLOCK / warpgroups
        self.epilogue *= SWAPPED_SHARE if config["swap_ab"] else PARTIAL_SHARE if tile_n % LINE else 1
        self.straddling = tuple(
            straddling((extent if mn_major else problem.k) * size)
            for extent, mn_major in zip(self.extents, (self.mn_a, self.mn_b), strict=True)
        )
        self.straddling_d = straddling(problem.d_columns * bytes_of(problem.d))
        self.sums = elements * 4 / SUMS_BYTES_PER_CLOCK / warpgroups
        self.subtiles = record.facts.get("subtiles", 1)
        self.hertz = device.clock_hz * CLOCK_SHARE
        self.power = self.wgmma / POWER_SHARE[size] / device.sm_count  # the power limit for one tile's box
        k_bytes = problem.batch * problem.k * size
        self.bytes_a, self.bytes_b = rows * k_bytes, columns * k_bytes

    def terms(self, tactic: Tactic) -> Terms:
        """The terms of a tactic's time."""
        cluster = self._clusters.get(tactic.cluster) or self._cluster(tactic)
        m, n, blocks = cluster.m, cluster.n, cluster.blocks
        splits, in_memory = tactic.splits, tactic.decomposition == "split_k"
        size = m * n
        if in_memory:
            blocks *= splits
        else:
            size *= splits
        at_once = max(1, self.device.clusters_at_once(size))  # `misfit_device` rejects a cluster with 0
        waves = Waves(at_once, *divmod(blocks, at_once))
        boxes = -(-self.k_tiles // splits) * self.boxes
        reduction = self._reduction(splits) if splits > 1 and not in_memory else 0.0
        loop = boxes * cluster.box
        if waves.before:
            consumed = boxes * cluster.math + self.epilogue + reduction
            if self.pingpong:  # a warpgroup stores one tile while the other multiplies the next
                consumed = max(boxes * cluster.math, consumed / 2)
            loop += waves.before * self.longer(boxes * cluster.loads, consumed)
        hbm = cluster.hbm_bytes / blocks * self._hbm_clocks(waves, size)
        power = self.power * boxes * blocks * size
        whole = (loop**OVERLAP + hbm**OVERLAP + power**OVERLAP) ** (1 / OVERLAP)
        full = min(1.0, max(0.0, (blocks / at_once - FULL_FROM) / (FULL_TO - FULL_FROM)))
        added = START_CLOCKS + FULL_START_CLOCKS * full + self.epilogue + reduction
        if size > 1:
            added += CLUSTER_CLOCKS + FULL_CLUSTER_SHARE * FULL_START_CLOCKS * full
        if in_memory:
            sums = splits * self.problem.batch * self.problem.m * self.problem.n * 4
            added += self.combine + sums / COMBINE_BYTES_PER_CLOCK
        elif splits > 1 and self.split_form and not waves.before and self.problem.batch == 1:
            added -= CLUSTER_FORM_CLOCKS
        return Terms(
            m, n, splits, in_memory, size, blocks, waves, boxes, cluster.math, loop, hbm, power, whole, added
        )

    def estimate(self, terms: Terms, correction: float = 1.0) -> Estimate:
        """The time of these terms, multiplied by `correction`."""
        count, loop = terms.waves.before + 1, terms.loop
        math = terms.math * terms.boxes * count
        bound = "hbm" if terms.hbm > loop else "math" if math > 0.6 * loop else "fill"
        whole, added = terms.whole / self.hertz * correction, terms.added / self.hertz * correction
        return Estimate(whole + added, count, bound, whole, added)

    def _reduction(self, splits: int) -> float:
        """Clocks of a cluster's reduction of a split k: each thread block adds its share of the subtiles."""
        subtiles = ceil(self.subtiles / splits) * (SUBTILE_CLOCKS + splits * self.sums / self.subtiles)
        return float(self.sums + subtiles + SPLIT_CLOCKS * splits)

    def _cluster(self, tactic: Tactic) -> _ClusterTerms:
        """The terms that the tactics of one cluster shape share."""
        m, n = cluster_of(tactic)
        # Multicast: thread blocks of a cluster in one row share A, in one column B.
        a, b = self.loads(0, n), self.loads(1, m)
        issued = OUTSIDE_CLOCKS * (a.outside + b.outside)
        issued += self._tma_clocks(a, 0) + self._tma_clocks(b, 1)
        port = (READ_MN_CLOCKS if self.mn_a else READ_CLOCKS) * self.tile[0]
        port += WRITTEN_CLOCKS * (a.arriving + b.arriving)
        math = max(self.wgmma, port) + self.math_overhead
        sync = 0.0 if m * n == 1 else SYNC_CLOCKS["four" if 4 in (m, n) else "pair"] / self.boxes
        loads = issued**NORM + sync**NORM
        hbm_bytes: float = self.problem.bytes
        if self.across > n:
            hbm_bytes += REREAD_SHARE * self.bytes_a
        if self.down > m:
            hbm_bytes += REREAD_SHARE * self.bytes_b
        blocks = -(-self.down // m) * -(-self.across // n) * self.problem.batch
        box = (math**NORM + loads) ** (1 / NORM)
        terms = _ClusterTerms(m, n, blocks, math, loads ** (1 / NORM), box, hbm_bytes)
        return self._clusters.setdefault(tactic.cluster, terms)

    def loads(self, side: int, sharers: int) -> Loads:
        """The rows of the last tile of A (side 0) or B (1), which `sharers` thread blocks load together."""
        return _loads(self.tile[side], self.extents[side], sharers, self.mn_b if side else self.mn_a)

    def _tma_clocks(self, loads: Loads, side: int) -> float:
        """TMA's clocks for the rows of A (side 0) or B (1) within the matrix, which has no gaps."""
        if not (self.mn_b if side else self.mn_a):
            return ISSUED_CLOCKS * loads.issued * (1 + STRADDLING_SHARE * self.straddling[side])
        clocks = MN_ISSUED_CLOCKS * loads.issued + MN_ARRIVING_CLOCKS * loads.arriving
        aligned = self.extents[side] % BOX_ROWS == 0 and self.tile[side] % BOX_ROWS == 0
        return clocks * (1 if aligned else MISALIGNED_SHARE)

    def _hbm_clocks(self, waves: Waves, size: int) -> float:
        """Clocks in which HBM delivers one byte to each block of tiles, summed over the waves."""
        device = self.device
        rated = self.hertz / (device.memory_bandwidth * HBM_SHARE)
        clocks = waves.last * hbm_byte_clocks(waves.last * size, rated, device.sm_count)
        if waves.before:
            busy = waves.at_once * size
            clocks += waves.before * waves.at_once * hbm_byte_clocks(busy, rated, device.sm_count)
        return clocks


@cache
def hbm_byte_clocks(busy: int, rated: float, sm_count: int) -> float:
    """Clocks for a byte from HBM while `busy` thread blocks load, at most `rated` clocks for all HBM.

    Thread blocks have a pair of SMs to themselves as long as there are enough pairs.
    """
    pairs = busy if busy <= sm_count / 2 else busy / 2
    return float((rated**NORM + (pairs * PAIR_BYTES_PER_CLOCK) ** -NORM) ** (1 / NORM))


def straddling(row_bytes: int) -> float:
    """The share of the rows of a matrix without gaps that do not begin at a 128-byte line of L2: 0 or 0.5 and
    more. Every 128 bytes of such a row lie in two lines."""
    return 1 - gcd(row_bytes, BOX_BYTES) / BOX_BYTES


@cache
def _loads(tile: int, extent: int, sharers: int, mn_major: bool) -> Loads:
    """The rows of the last tile along an extent, which `sharers` thread blocks load together.

    A K-major tile that is the only one along its extent is loaded in slices of whole swizzle atoms, as far as
    the matrix goes (`Slices`, sm90/cluster.hpp). An MN-major tile is sliced along k, and its rows lie side by
    side in boxes of 64.
    """
    arriving, inside = tile, extent - (ceil(extent / tile) - 1) * tile
    if mn_major:
        arriving, inside = (ceil(rows / BOX_ROWS) * BOX_ROWS for rows in (tile, inside))
        return Loads(arriving, inside / sharers, (arriving - inside) / sharers)
    if extent <= tile:
        slices = ceil(extent / (ATOM_ROWS * sharers)) * ATOM_ROWS * sharers
        arriving = slices if sharers > 1 and slices <= tile else extent
    outside = min(arriving - inside, arriving / sharers)
    return Loads(arriving, arriving / sharers - outside, outside)
