"""The cost model of persistent kernels of matrix products: it ranks tactics, and does not predict clocks.

Thread blocks, one to an SM, compute the tiles in waves. A k tile takes about as long as the slowest of its
instructions, the SM's loads and memory. The model takes a norm of the three times, because they disturb each
other. Power limits the rate of a launch's multiplications. Times that do not overlap are added: the launch,
the first stage's latency, the epilogues, the split-k reduction.

A family has a subclass for each architecture. The subclass holds the numbers, each with its source, and the
clocks of a k tile's instructions.
"""

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any, ClassVar, NamedTuple, TypeAlias

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate
from tilewright.selection.fitting import cluster_unit

MIN_STREAM_K_TILES = 8  # the fewest k tiles that CUTLASS gives a stream-K unit
SCALE_ROWS = 128  # the fewest rows of scale factors that a tile loads, because a block of them has 128 rows
SUM_BYTES = 4  # bytes of an accumulator
L2_SHARE_FOR_OPERANDS = 0.7  # share of L2 that holds operands until they are read again; measured on an H200
# The next four numbers are a stream-K kernel's costs beside those of the same tiles without stream-K. They
# are measured on an H200, and used for all GPUs, as no others are published.
# Seconds to clear the workspace, in a graph node before the kernel, which then overlaps nothing.
STREAM_K_SECONDS = 3.8e-6
# Clocks of a tile: the scheduler does not overlap tiles (k of 1536, 24 tiles to an SM).
STREAM_K_TILE_CLOCKS = 2500
# Clocks of a barrier in global memory between two k ranges of a tile.
EXCHANGE_CLOCKS = 330
# Bytes per clock of a k range's sums, written and read (8 to 16 splits).
EXCHANGE_BYTES_PER_CLOCK = 45


class Share(NamedTuple):
    """The work of the busiest SM: full waves, then a last wave in which `busy` SMs work."""

    full_waves: int
    full_k_tiles: int  # k tiles of each full wave
    busy: int
    last_k_tiles: int  # k tiles of the last wave
    epilogues: float
    parts: int  # the most k ranges of a tile


class Loop(NamedTuple):
    """The work of one k tile of one tile in clusters of some shape."""

    tiles: int  # including tiles of border clusters that lie outside of D: their SMs have no other work
    sms: int  # SMs that clusters cover
    math: float  # clocks of the instructions
    loaded: float  # bytes from L2
    zeros: float  # clocks in which TMA writes zeros for rows that do not exist
    memory: float  # clocks of the whole memory


Needs: TypeAlias = tuple[float, float, float]
"""The clocks of a k tile's instructions, of its loads and of memory."""
BOUNDS = ("math", "fill", "hbm")  # the names of the three


class Clustered(NamedTuple):
    """The values that all tactics of one cluster shape share."""

    loop: Loop
    needs: Needs  # of a k tile, while all SMs that clusters cover work
    clocks: float  # of a k tile, while all these SMs work
    start: float  # clocks before the first k tile


class TileModel:
    """The tiles of a kernel for a problem, with their loads and stores, in clocks unless a field says
    otherwise. If the kernel swaps the operands, its rows are the caller's columns."""

    # Multiplications per clock of an SM, by the bits of the wider operand.
    MULTIPLICATIONS: ClassVar[Mapping[int, float]]
    # Bytes per clock of the zeros that TMA writes for rows that do not exist.
    OUTSIDE_BYTES_PER_CLOCK: float
    # The share of the rated bandwidth that memory reaches.
    MEMORY_SHARE: float
    # Clocks of an epilogue's latency, without its bytes.
    EPILOGUE_CLOCKS: float
    # Bytes of D and C per clock and SM, by the store policy of D.
    EPILOGUE_BYTES_PER_CLOCK: ClassVar[Mapping[str, float]]
    # The share of L2 that holds one operand while the other streams past it: with k of 28672 a B300 loses 4
    # percent from m of 4096 (66 MB of L2's 126) to 8192, with k of 8192 nothing (FlashInfer pull request
    # 2303).
    L2_SHARE_FOR_ONE = 0.6

    def __init__(self, record: KernelRecord, problem: Any, device: DeviceProperties) -> None:
        self.record, self.config, self.problem, self.device = record, record.config, problem, device
        self.tile_m, self.tile_n, self.tile_k = self.config["tile"]
        self.rows, self.columns = problem.m, problem.n
        self.row_bits, self.column_bits = bits(problem.a), bits(problem.b)
        if self.config["swap_ab"]:
            self.rows, self.columns = self.columns, self.rows
            self.row_bits, self.column_bits = self.column_bits, self.row_bits
        self.width = max(self.row_bits, self.column_bits)  # bits of the wider operand
        self.k_tiles = ceil(problem.k / self.tile_k)
        block = record.facts.get("block")
        self.scale_bytes = 1 / block if block else 0  # bytes of scale factors per element
        outputs = bits(problem.d) + (bits(problem.type_of_c) if problem.c else 0)
        stored = self.tile_m * self.tile_n * outputs / 8
        per_clock = self.EPILOGUE_BYTES_PER_CLOCK[self.config.get("store", "tma")]
        self.epilogue = self.EPILOGUE_CLOCKS + stored / per_clock

    @classmethod
    def peak(cls, kind: Any, device: DeviceProperties) -> float:
        """The operations per second of the tensor cores for a kind of problem."""
        return 2 * cls.MULTIPLICATIONS[max(bits(kind.a), bits(kind.b))] * device.sm_count * device.clock_hz

    def tiles(self, cluster: tuple[int, int] = (1, 1)) -> tuple[int, int]:
        """The tiles of one matrix, down and across."""
        m, n = cluster
        down, across = ceil(self.rows / self.tile_m), ceil(self.columns / self.tile_n)
        return ceil(down / m) * m, ceil(across / n) * n

    def loaded(self, cluster: tuple[int, int] = (1, 1)) -> tuple[float, float]:
        """The bytes of a k tile that one thread block loads from L2, and the clocks in which TMA writes
        zeros.

        Multicast: the thread blocks in a row of a cluster share the rows' operand, those in a column the
        columns' operand. Scale factors are loaded for `SCALE_ROWS` rows or more, padding included.
        """
        m, n = cluster
        down, across = self.tiles(cluster)
        held_m, held_n = self.rows / down, self.columns / across  # mean rows and columns of D in a tile
        row, column = self.row_bits / 8 / n, self.column_bits / 8 / m
        scales = max(self.tile_m, SCALE_ROWS) / n + max(self.tile_n, SCALE_ROWS) / m
        loaded = (held_m * row + held_n * column + scales * self.scale_bytes) * self.tile_k
        zeros = ((self.tile_m - held_m) * row + (self.tile_n - held_n) * column) * self.tile_k
        return loaded, zeros / self.OUTSIDE_BYTES_PER_CLOCK

    def memory_clocks(self, tiles: int, at_once: int) -> float:
        """The clocks of the whole memory for a k tile, if `at_once` of the tiles are computed at once. Each
        matrix is moved once if the operands stay in L2, more often if waves read them again."""
        a, b = self.problem.operand_bytes
        operands, l2 = self.problem.batch * (a + b), self.device.l2_bytes
        moved = self.problem.bytes
        if operands > l2 * L2_SHARE_FOR_OPERANDS and min(a, b) > l2 * self.L2_SHARE_FOR_ONE:
            # A wave covers a block of tiles about as wide as high, and reads its rows and columns once.
            waves = max(1.0, tiles / at_once)
            element = (self.row_bits + self.column_bits) / 16 + self.scale_bytes
            sides = 2 * sqrt(self.tile_m * self.tile_n * min(tiles, at_once))
            reread = min(waves * sides * self.problem.k * element, operands * waves)
            moved += max(0.0, reread - operands)
        per_clock = self.device.memory_bandwidth * self.memory_share() / self.device.clock_hz
        return float(moved / (tiles * self.k_tiles) / per_clock)

    def memory_share(self) -> float:
        return self.MEMORY_SHARE


class PersistentModel(TileModel):
    """Estimates the tactics of a persistent kernel. Values that tactics share are computed once."""

    # Bytes per clock from L2 to an SM, while few SMs load.
    SM_FILL_BYTES_PER_CLOCK: float
    # Bytes per clock from L2 to all SMs together, while all load. A subclass sets this or the next.
    L2_BYTES_PER_CLOCK: float = 0
    # Bytes per clock from L2 to each SM, while all load.
    L2_SM_BYTES_PER_CLOCK: float = 0
    # The power of the norm that adds the times of math, loads and memory.
    DISTURBANCE: float
    # The power of the norm of these and of the clocks that power allows: the higher, the sharper the limit.
    SUSTAINED_NORM = 8
    LAUNCH_SECONDS: float
    # Clocks of the tensor maps and the first loads from memory.
    FIRST_STAGE_CLOCKS: float
    # Clocks of a cluster's barriers, in which its thread blocks wait for the slowest.
    CLUSTER_CLOCKS: float = 0

    def __init__(self, record: KernelRecord, problem: Any, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        tile = self.tile_m * self.tile_n * self.tile_k
        # Clocks of a k tile at the full rate.
        self.multiplied = float(tile / self.MULTIPLICATIONS[self.width])
        stream_k = self.config["scheduler"] == "stream_k"
        self.seconds = self.LAUNCH_SECONDS + (STREAM_K_SECONDS if stream_k else 0)
        self.tile_clocks = STREAM_K_TILE_CLOCKS if stream_k else 0
        sums = self.tile_m * self.tile_n * SUM_BYTES
        self.exchange = EXCHANGE_CLOCKS + 2 * sums / EXCHANGE_BYTES_PER_CLOCK
        self.l2 = self.L2_BYTES_PER_CLOCK or self.L2_SM_BYTES_PER_CLOCK * device.sm_count
        self.slower = 1.0  # the factor by which a launch takes longer than the other terms say
        self.loops: dict[str, Clustered] = {}  # by the clusters of tactics

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of a k tile's instructions, and of the work that they do not hide."""
        raise NotImplementedError

    def sms(self, cluster: tuple[int, int]) -> int:
        """The SMs that clusters of this shape cover."""
        return self.device.sm_count

    def together(self, math: float, fill: float, memory: float) -> float:
        """The clocks of a k tile whose instructions, loads and memory take these clocks."""
        power = self.DISTURBANCE  # `norm` written out, because a call for each of hundreds of tactics is slow
        return float((math**power + fill**power + memory**power) ** (1 / power))

    def power(self, loop: Loop, part: Share) -> float:
        """The fewest clocks for a launch's multiplications that the GPU's power allows."""
        return 0.0

    def shown(self, epilogues: float) -> float:
        """The epilogues that no multiplication hides. A ping-pong kernel stores a tile while the other
        warpgroup computes, so only its last epilogue is not hidden."""
        return 1 if self.config["schedule"] == "pingpong" else epilogues

    def weigh(self, tactic: Tactic) -> Estimate:
        """The time of one launch, from the first block's start to the last store."""
        clustered = self.loops.get(tactic.cluster) or self._loop(tactic)
        own_share = self.busiest(tactic, clustered.loop)
        clocks, bound = self._main_loop(clustered, own_share)
        added = (
            clustered.start
            + self.shown(own_share.epilogues) * self.epilogue
            + own_share.epilogues * self.tile_clocks
        )
        added += self.exchanged(tactic, own_share)
        main_loop, overhead = clocks / self.device.clock_hz, self.seconds + added / self.device.clock_hz
        seconds = (main_loop + overhead) * self.slower
        return Estimate(seconds, ceil(own_share.epilogues), bound, main_loop, overhead)

    def busiest(self, tactic: Tactic, loop: Loop) -> Share:
        """The busiest SM's share of the work."""
        return share(tactic, loop.tiles, self.k_tiles, loop.sms)

    def exchanged(self, tactic: Tactic, own_share: Share) -> float:
        """The clocks in which k ranges' sums are added. A deterministic reduction goes from k range to k
        range: each reads and writes the sums so far."""
        return float((own_share.parts - 1) * self.exchange)

    def _cluster(self, tactic: Tactic) -> tuple[int, int]:
        if tactic.cluster:
            return extents(tactic.cluster)
        m, n = cluster_unit(self.record) if self.config["cluster"] == "dynamic" else self.config["cluster"]
        return m, n

    def _loop(self, tactic: Tactic) -> Clustered:
        """The values that all tactics of the tactic's cluster shape share."""
        cluster = self._cluster(tactic)
        down, across = self.tiles(cluster)
        tiles, sms = down * across * self.problem.batch, self.sms(cluster)
        loop = Loop(tiles, sms, self.math(cluster), *self.loaded(cluster), self.memory_clocks(tiles, sms))
        needs = self._needs(loop, sms)
        start = self.FIRST_STAGE_CLOCKS + (self.CLUSTER_CLOCKS if cluster != (1, 1) else 0)
        clustered = Clustered(loop, needs, self.together(*needs), start)
        return self.loops.setdefault(tactic.cluster, clustered)

    def _needs(self, loop: Loop, busy: int) -> Needs:
        """The clocks of a k tile's instructions, of its loads and of memory while `busy` SMs work."""
        fill = loop.loaded * max(1 / self.SM_FILL_BYTES_PER_CLOCK, busy / self.l2)
        return loop.math, fill + loop.zeros, loop.memory * busy

    def _main_loop(self, clustered: Clustered, own_share: Share) -> tuple[float, str]:
        """The clocks of all k tiles of the busiest SM, and the name of what limits them."""
        loop, most = clustered.loop, clustered.needs
        clocks = own_share.full_waves * own_share.full_k_tiles * clustered.clocks
        if own_share.busy:
            needs = self._needs(loop, own_share.busy)
            clocks += own_share.last_k_tiles * self.together(*needs)
            most = most if own_share.full_waves else needs
        power = self.power(loop, own_share)
        bound = BOUNDS[most.index(max(most))]
        norm = self.SUSTAINED_NORM
        clocks_by_power = float((clocks**norm + power**norm) ** (1 / norm))
        return clocks_by_power, "power" if power > clocks else bound


def share(tactic: Tactic, tiles: int, tile_depth: int, sms: int) -> Share:
    """The busiest SM's share of a persistent kernel on `sms` SMs, whose tiles have `tile_depth` k tiles."""
    parts = tactic.splits if tactic.decomposition == "split_k" else 1
    if tactic.decomposition != "stream_k" or tiles % sms == 0:
        full, rest = divmod(tiles * parts, sms)
        k_tiles = ceil(tile_depth / parts)
        return Share(full, k_tiles, rest, k_tiles, full + (rest > 0), parts)
    # CUTLASS gives the last full wave and the rest to stream-K units.
    full = max(0, tiles // sms - 1)
    rest = tiles - full * sms
    units = min(sms, max(1, rest * tile_depth // MIN_STREAM_K_TILES))
    k_tiles = ceil(rest * tile_depth / units)
    parts = 1 if rest >= units and rest % units == 0 else ceil(units / rest) + 1
    # A unit that does not start with a tile works on one tile more than it could fill.
    epilogues = full + (k_tiles / tile_depth + 1 if parts > 1 else ceil(k_tiles / tile_depth))
    return Share(full, tile_depth, units, k_tiles, epilogues, parts)


def norm(power: float, *terms: float) -> float:
    """The norm of the terms: close to the largest if `power` is high, their sum if it is 1."""
    return float(sum([term**power for term in terms]) ** (1 / power))
