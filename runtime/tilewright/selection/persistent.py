"""How long a persistent kernel of matrix products takes: to rank tactics, not to predict a clock.

Thread blocks, one to an SM, work through the tiles in waves. One k tile takes about the longest of what its
instructions, the SM's loads and memory need for it: the norm of the three, because they disturb each other.
What a launch multiplies cannot beat the rate that power sustains. What does not overlap is added: launch, the
first stage's latency, epilogues, the exchange of partial sums.

A family has a subclass for each architecture: its numbers, with what each rests on, and what the instructions
of a k tile take.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any, ClassVar, NamedTuple, TypeAlias

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate
from tilewright.selection.fitting import cluster_unit

MIN_STREAM_K_TILES = 8  # k tiles that CUTLASS gives a stream-K unit at least
SCALE_ROWS = 128  # rows of scale factors that a tile loads at least: they lie in blocks of so many
SUM_BYTES = 4  # of an accumulator
L2_SHARE_FOR_OPERANDS = 0.7  # of L2 that holds operands until they are read again; measured on an H200
# Of a stream-K kernel, against the same tiles without; of an H200, for all as nobody published any.
STREAM_K_SECONDS = 3.8e-6  # the workspace's clearing: a node before the kernel, which then overlaps nothing
STREAM_K_TILE_CLOCKS = 2500  # its scheduler does not overlap tiles (k of 1536, 24 tiles to an SM)
EXCHANGE_CLOCKS = 330  # a barrier in global memory between two parts of a tile
EXCHANGE_BYTES_PER_CLOCK = 45  # a part's sums, written and read (8 to 16 splits)


class Share(NamedTuple):
    """What the busiest SM does: whole waves, then a last one on `busy` SMs."""

    full_waves: int
    full_k_tiles: int  # of each of the waves
    busy: int
    last_k_tiles: int
    epilogues: float
    parts: int  # that a tile is cut into at most


class Loop(NamedTuple):
    """What one k tile of one tile needs in clusters of some shape."""

    tiles: int  # with those of border clusters that do not exist: their SMs have nothing else to do
    sms: int  # that clusters cover
    math: float  # clocks
    loaded: float  # bytes from L2
    zeros: float  # clocks in which TMA writes them for rows that do not exist
    memory: float  # clocks of all of memory


Needs: TypeAlias = tuple[float, float, float]
"""Clocks of a k tile's instructions, of its loads and of memory."""
BOUNDS = ("math", "fill", "hbm")  # what these are called


class Clustered(NamedTuple):
    """What tactics of one cluster share."""

    loop: Loop
    needs: Needs  # of a k tile, on all SMs that clusters cover
    clocks: float  # that a k tile takes there
    start: float  # clocks before the first k tile


class TileModel:
    """A kernel on a problem: its tiles, what they load and store. Where operands swap, its rows are the
    caller's columns. Clocks where nothing else is said."""

    MULTIPLICATIONS: ClassVar[Mapping[int, float]]  # of an SM a clock, by the bits of the wider operand
    OUTSIDE_BYTES_PER_CLOCK: float  # zeros for rows that do not exist
    MEMORY_SHARE: float  # of the rated bandwidth
    EPILOGUE_CLOCKS: float  # latency of an epilogue apart from its bytes
    EPILOGUE_BYTES_PER_CLOCK: ClassVar[Mapping[str, float]]  # of D, and of C, an SM, by how D is stored
    # Of L2 that holds one operand while the other one streams past it: a B300 with k of 28672 loses 4 percent
    # from m of 4096 (66 MB of L2's 126) to 8192, and with k of 8192 nothing (FlashInfer pull request 2303).
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
        self.scale_bytes = 1 / block if block else 0  # of an element's
        outputs = bits(problem.d) + (bits(problem.type_of_c) if problem.c else 0)
        stored = self.tile_m * self.tile_n * outputs / 8
        per_clock = self.EPILOGUE_BYTES_PER_CLOCK[self.config.get("store", "tma")]
        self.epilogue = self.EPILOGUE_CLOCKS + stored / per_clock

    @classmethod
    def peak(cls, kind: Any, device: DeviceProperties) -> float:
        """Operations a second of the tensor cores for a kind of problem."""
        return 2 * cls.MULTIPLICATIONS[max(bits(kind.a), bits(kind.b))] * device.sm_count * device.clock_hz

    def tiles(self, cluster: tuple[int, int] = (1, 1)) -> tuple[int, int]:
        """Down and across, of one matrix."""
        m, n = cluster
        down, across = ceil(self.rows / self.tile_m), ceil(self.columns / self.tile_n)
        return ceil(down / m) * m, ceil(across / n) * n

    def loaded(self, cluster: tuple[int, int] = (1, 1)) -> tuple[float, float]:
        """Bytes of a k tile that one thread block takes from L2, and clocks in which TMA writes zeros.

        Multicast: thread blocks of a cluster in one row share the rows' operand, in one column the other.
        Scale factors come for `SCALE_ROWS` rows or more, whose padding exists.
        """
        m, n = cluster
        down, across = self.tiles(cluster)
        held_m, held_n = self.rows / down, self.columns / across  # that exist, of a tile
        row, column = self.row_bits / 8 / n, self.column_bits / 8 / m
        scales = max(self.tile_m, SCALE_ROWS) / n + max(self.tile_n, SCALE_ROWS) / m
        loaded = (held_m * row + held_n * column + scales * self.scale_bytes) * self.tile_k
        zeros = ((self.tile_m - held_m) * row + (self.tile_n - held_n) * column) * self.tile_k
        return loaded, zeros / self.OUTSIDE_BYTES_PER_CLOCK

    def memory_clocks(self, tiles: int, at_once: int) -> float:
        """Of a k tile, of all of memory, where so many of the tiles are computed at once: each matrix goes
        through it once where the operands stay in L2, more often where waves reread them."""
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
    """Estimates a persistent kernel's tactics: what they share is worked out once."""

    SM_FILL_BYTES_PER_CLOCK: float  # an SM from L2, if few others load
    L2_BYTES_PER_CLOCK: float = 0  # L2 to all SMs; or
    L2_SM_BYTES_PER_CLOCK: float = 0  # to each of them, when all load
    DISTURBANCE: float  # the norm in which math, loads and memory add up
    SUSTAINED_NORM = 8  # how sharply power takes over
    LAUNCH_SECONDS: float
    FIRST_STAGE_CLOCKS: float  # tensor maps, first loads from memory
    CLUSTER_CLOCKS: float = 0  # barriers of a cluster, its thread blocks waiting for the slowest

    def __init__(self, record: KernelRecord, problem: Any, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        tile = self.tile_m * self.tile_n * self.tile_k
        self.multiplied = float(
            tile / self.MULTIPLICATIONS[self.width]
        )  # clocks of a k tile, at the full rate
        stream_k = self.config["scheduler"] == "stream_k"
        self.seconds = self.LAUNCH_SECONDS + (STREAM_K_SECONDS if stream_k else 0)
        self.each = STREAM_K_TILE_CLOCKS if stream_k else 0
        sums = self.tile_m * self.tile_n * SUM_BYTES
        self.exchange = EXCHANGE_CLOCKS + 2 * sums / EXCHANGE_BYTES_PER_CLOCK
        self.l2 = self.L2_BYTES_PER_CLOCK or self.L2_SM_BYTES_PER_CLOCK * device.sm_count
        self.slower = 1.0  # a launch takes so many times as long as the rest says
        self.loops: dict[str, Clustered] = {}  # by tactics' clusters

    def math(self, cluster: tuple[int, int]) -> float:
        """Clocks of a k tile's instructions, and of what they do not hide."""
        raise NotImplementedError

    def sms(self, cluster: tuple[int, int]) -> int:
        """That such clusters cover."""
        return self.device.sm_count

    def together(self, math: float, fill: float, memory: float) -> float:
        """Clocks of a k tile that needs these."""
        power = self.DISTURBANCE  # `norm`, without calls for each of hundreds of tactics
        return float((math**power + fill**power + memory**power) ** (1 / power))

    def power(self, loop: Loop, part: Share) -> float:
        """Clocks below which the GPU's power does not let a launch's multiplications go."""
        return 0.0

    def shown(self, epilogues: float) -> float:
        """Epilogues that no multiplication hides. Ping-pong stores a tile while the other warpgroup computes:
        only the last one shows."""
        return 1 if self.config["schedule"] == "pingpong" else epilogues

    def weigh(self, tactic: Tactic) -> Estimate:
        """Seconds that one launch takes, from the first block's start to the last store."""
        found = self.loops.get(tactic.cluster) or self._loop(tactic)
        part = share(tactic, found.loop.tiles, self.k_tiles, found.loop.sms)
        clocks, bound = self._main_loop(found, part)
        added = found.start + self.shown(part.epilogues) * self.epilogue + part.epilogues * self.each
        # A deterministic reduction goes from part to part: each reads and writes the sums so far.
        added += (part.parts - 1) * self.exchange
        main_loop, overhead = clocks / self.device.clock_hz, self.seconds + added / self.device.clock_hz
        seconds = (main_loop + overhead) * self.slower
        return Estimate(seconds, ceil(part.epilogues), bound, main_loop, overhead)

    def _cluster(self, tactic: Tactic) -> tuple[int, int]:
        if tactic.cluster:
            return extents(tactic.cluster)
        m, n = cluster_unit(self.record) if self.config["cluster"] == "dynamic" else self.config["cluster"]
        return m, n

    def _loop(self, tactic: Tactic) -> Clustered:
        """What tactics of one cluster share."""
        cluster = self._cluster(tactic)
        down, across = self.tiles(cluster)
        tiles, sms = down * across * self.problem.batch, self.sms(cluster)
        loop = Loop(tiles, sms, self.math(cluster), *self.loaded(cluster), self.memory_clocks(tiles, sms))
        needs = self._needs(loop, sms)
        start = self.FIRST_STAGE_CLOCKS + (self.CLUSTER_CLOCKS if cluster != (1, 1) else 0)
        found = Clustered(loop, needs, self.together(*needs), start)
        return self.loops.setdefault(tactic.cluster, found)

    def _needs(self, loop: Loop, busy: int) -> Needs:
        """Clocks of a k tile's instructions, of its loads and of memory while `busy` SMs work."""
        fill = loop.loaded * max(1 / self.SM_FILL_BYTES_PER_CLOCK, busy / self.l2)
        return loop.math, fill + loop.zeros, loop.memory * busy

    def _main_loop(self, of: Clustered, part: Share) -> tuple[float, str]:
        """Clocks of all k tiles of the busiest SM, and what bounds them."""
        loop, most = of.loop, of.needs
        clocks = part.full_waves * part.full_k_tiles * of.clocks
        if part.busy:
            needs = self._needs(loop, part.busy)
            clocks += part.last_k_tiles * self.together(*needs)
            most = most if part.full_waves else needs
        power = self.power(loop, part)
        bound = BOUNDS[most.index(max(most))]
        norm = self.SUSTAINED_NORM
        clocks_by_power = float((clocks**norm + power**norm) ** (1 / norm))
        return clocks_by_power, "power" if power > clocks else bound


def share(tactic: Tactic, tiles: int, tile_depth: int, sms: int) -> Share:
    """The busiest SM's part of a persistent kernel on `sms` SMs, of tiles of so many k tiles."""
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
    """What takes the longest where `power` is high, the sum where it is 1."""
    return float(sum([term**power for term in terms]) ** (1 / power))
