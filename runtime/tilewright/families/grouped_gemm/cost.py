"""A model of how long a tactic takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. Clusters of them work through tiles in waves. The unit of k is a
box: the 128 bytes of k that one TMA box is wide. A box takes about as long as the slowest of the tensor
cores, the port of shared memory, the SM's loads and the latency of the stages in flight; the model takes a
p-norm of them, because they disturb each other. A launch can be faster neither than HBM nor than the rate of
multiplications that the GPU's power limit sustains. The launch, the epilogues and the reduction of a split k
are added.

The number of tiles depends on the rows of each group, which only the device knows. The model takes the mean
time over three likely numbers of tiles (`likely_tiles`). `clocks` below are SM clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # bytes of k in a row of a TMA box
STEPS = 4  # wgmma instructions of a box, for each 64 rows
INSTRUCTION_M = 64  # rows of a wgmma
INSTRUCTION_K_BYTES = 32  # bytes of k of a wgmma
SMEM_BYTES_PER_CLOCK = 128  # bytes per clock of an SM's shared memory; wgmma reads both operands from it
LANES = 128  # F32 multiplications of an SM in a clock
CLOCK_SHARE = 0.886  # share of the highest clock at which all clocks here count: 1755 of 1980 MHz

# The same as for gemm's lean kernels, which share mainloop and producer: fitted to 58,000 times of them on an
# H200.
STAGE_CLOCKS = 35  # clocks of a stage's barriers
PORT_SHARE = 0.77  # share of the port's clocks on paper that it really takes
WRITTEN_SHARE = 1.08  # clocks of the port for a row of a box that TMA writes
LATENCY_CLOCKS = 1190  # clocks from a load to its data
STAGES_BEHIND = 1.5  # stages that are not in flight: one that is read, and half of the next
SM_FILL_BYTES_PER_CLOCK = 61  # bytes per clock from L2 to an SM, if few others load
L2_BYTES_PER_CLOCK = 6740  # bytes per clock from L2 to all SMs
DISTURBANCE = 5.6  # p of the p-norm that combines the tensor cores, loads and latency
OVERLAP = 2.95  # p of the p-norm that combines main loop, HBM and power
START_CLOCKS = 2160  # clocks of launch, tensor maps, and the first stage's loads from HBM
TWO_AT_ONCE_BYTES = 113 * 1024  # bytes of shared memory of a block beside which the next launch's block fits
TWO_AT_ONCE_CLOCKS = 1000  # clocks by which a launch starts earlier if it fits so
WEIGHTS_FIRST_CLOCKS = 300  # clocks by which the first stages of a constant B arrive earlier
FULL_START_CLOCKS = 2870  # clocks more if every SM has a block
EPILOGUE_CLOCKS = 50  # clocks of an epilogue, without its bytes
EPILOGUE_BYTES_PER_CLOCK = 22.7  # bytes of D per clock of an SM
ONE_BUFFER = 1.4  # factor on the epilogue's bytes if subtiles of D share one buffer and wait for each other
CLUSTER_CLOCKS = 2010  # clocks of a cluster's start and of two of its barriers
EXCHANGE_CLOCKS = 146  # clocks of a reduction through shared memory, without its bytes
EXCHANGE_BYTES_PER_CLOCK = 16.8  # bytes per clock of sums that are written, or read from other SMs

# Fitted to the tiles of runs on an H200. Promotion is fitted to the choices for the 47 problems of
# benchmarks/fit/grouped_times.py, for which the model's choice takes 4 % longer than the fastest tactic.
# Promotion scales and adds the sums of 128 of k. Clocks for 128 of its multiplications, by schedule:
PROMOTION_CLOCKS = {"after": 0.8, "in_turn": 0.8, "overlapped": 1.3, "halves": 1.3}
VECTOR_PROMOTION = 1.5  # factor on promotion if each column has its own scale factor
TALL = 256  # rows of a tile whose warpgroups load column factors once for 128 rows: no such factor
THREE_ROWS = 192  # rows of a tile of three warpgroups, two of which multiply while one promotes
THREE = 0.4  # share of promotion's clocks that such a tile shows
SKIPPED_SHARE = 0.6  # share of the clocks of 64 rows that a tile saves if it skips them
SUSTAINED_SHARE = 0.80  # sustained share of the tensor cores' rate, for tiles of 128x128
WEIGHTS_SHARE = 0.15  # share by which a byte of B takes longer than one of A, which other tiles have read
TRAFFIC_SHARE = 0.3  # share of the power that loading a multiplication's operands takes

# The rows of groups, as shares of the expected number. Callers expect more rows than come: 1.2 times as many
# in DeepGEMM's tests. On the 203 masked products of seeds 21 to 27, which benchmarks/fit/cold_times.py timed
# with such rows, choices without trees are 4.1 % behind the fastest tactic. With shares of 0.7 to 1.3 they
# were 5.6 % behind (docs/selection.md).
SPREAD = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)


class Terms(NamedTuple):
    """The terms of a tactic's estimated time, in clocks unless a comment says otherwise."""

    m: int  # thread blocks of a cluster, along m, that have tiles of their own
    n: int  # the same along n
    splits: int  # k ranges of a tile
    size: int  # thread blocks of a cluster
    at_once: int  # clusters that run at once
    blocks: float  # blocks of tiles: a tile for each of the m x n thread blocks of a cluster
    waves: float
    boxes: int  # boxes of k in a k range
    loop: float  # main loops of all tiles of the busiest thread block
    hbm: float  # HBM's limit for the launch
    power: float  # the power limit for the launch
    whole: float  # loop, hbm and power together
    added: float  # what does not overlap with them


def group_rows(problem: Problem) -> int:
    """The expected rows of a group."""
    if problem.grouping == "rows_valid":
        return min(problem.expected_m or problem.m, problem.m)
    return ceil(problem.rows_in_place / problem.groups)


def tiles_down(
    problem: Problem, rows: int, *, skips: bool = False, shares: Sequence[float] = SPREAD
) -> float:
    """The tiles of `rows` rows that hold rows of a group, in all groups: the mean over `shares` of the
    expected rows. If kernels skip 64 rows of which none is a group's (`skips`), a tile counts less for
    them."""
    if problem.grouping in ("none", "k_sizes"):
        return ceil(problem.m / rows) * problem.groups
    if problem.grouping == "rows_valid":
        expected = problem.expected_m
        if not expected or expected >= problem.m:
            return ceil(problem.m / rows) * problem.groups
        counts = [min(problem.m, expected * share) for share in shares]
        tiles: list[float] = [ceil(count / rows) for count in counts]
        if skips and rows > INSTRUCTION_M:
            least = INSTRUCTION_M / rows
            empty = [
                1 - ceil(count % rows / INSTRUCTION_M) * least if count % rows else 0 for count in counts
            ]
            tiles = [count - SKIPPED_SHARE * part for count, part in zip(tiles, empty, strict=True)]
        return sum(tiles) / len(tiles) * problem.groups
    whole = ceil(problem.rows_in_place / rows)
    # A tile that begins where a group does holds rows of one group. Others are computed once for each group.
    if problem.row_alignment % rows == 0:
        return whole
    return whole + (problem.groups - 1) * (0.5 if problem.grouping == "ends" else 1.0)


def likely_tiles(problem: Problem, rows: int, *, skips: bool = False) -> tuple[float, ...]:
    """Equally likely numbers of tiles, whose mean is `tiles_down`: one, or three if the rows of each group
    vary. The fewer groups there are, the more the number of waves depends on chance: a tactic whose tiles
    fill the SMs exactly once in the mean often takes two waves."""
    mean = tiles_down(problem, rows, skips=skips)
    if problem.grouping != "rows_valid" or not 0 < problem.expected_m < problem.m:
        return (mean,)
    counts = [ceil(min(problem.m, problem.expected_m * share) / rows) for share in SPREAD]
    mean_count = sum(counts) / len(counts)
    variance = sum((count - mean_count) ** 2 for count in counts) / len(counts)
    # The rows of groups vary independently. Three values at equal distances deviate by sqrt(2/3) of it.
    distance = sqrt(variance * problem.groups * 3 / 2)
    least = min(mean, problem.groups)  # each group has a tile
    return (max(least, mean - distance), mean, mean + distance) if distance else (mean,)


class Kernel:
    """A kernel on a problem. Terms that its tactics share are computed once."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        config = record.config
        self.problem, self.device = problem, device
        self.swapped = bool(config["swap_ab"])
        tile_m, tile_n, tile_k = config["tile"]
        self.tile = (tile_m, tile_n)
        self.promotion: str = config["promotion"] if problem.scales != "none" else ""
        self.weights_first = bool(config.get("constant_b"))
        self.smem_bytes: int = record.facts["smem_bytes"]
        self.stages: int = record.facts["stages"]
        self.stage_boxes = tile_k * bits(problem.a) // 8 // BOX_BYTES
        self.across = ceil(problem.n / (tile_m if self.swapped else tile_n))  # tiles across D
        k = problem.k / problem.groups if problem.grouping == "k_sizes" else problem.k
        self.boxes = ceil(ceil(k * bits(problem.a) / 8 / BOX_BYTES) / self.stage_boxes) * self.stage_boxes
        instructions = STEPS * tile_m / INSTRUCTION_M
        self.wgmma = instructions * tile_n / 2  # the tensor cores' clocks for a box
        self.math = self._box_math(instructions)
        in_flight = max(1.0, (self.stages - STAGES_BEHIND) * self.stage_boxes)
        self.latency = LATENCY_CLOCKS / in_flight  # clocks of a box while all stages are in flight
        self._undisturbed = self.math**DISTURBANCE + self.latency**DISTURBANCE
        traffic = (128 / tile_m + 128 / tile_n) / 2
        power = (1 - TRAFFIC_SHARE + TRAFFIC_SHARE * traffic) / SUSTAINED_SHARE
        self._power = self.wgmma * self.boxes * power  # clocks of a tile at the rate that power sustains
        outputs = bits(problem.d) / 16 * (2 if problem.c else 1)
        waiting = ONE_BUFFER if config.get("store_buffers") == 1 else 1.0
        elements = tile_m * tile_n
        self.epilogue = EPILOGUE_CLOCKS + elements * 2 * outputs / EPILOGUE_BYTES_PER_CLOCK * waiting
        self._exchange = EXCHANGE_CLOCKS + elements * 4 / EXCHANGE_BYTES_PER_CLOCK
        self.hertz = device.clock_hz * CLOCK_SHARE
        self._hbm = problem.bytes * self.hertz / device.memory_bandwidth
        self._blocks_down: dict[int, list[int]] = {}

    def _box_math(self, instructions: float) -> float:
        """Clocks of a box in the tensor cores, and in work that does not overlap them."""
        tile_m, tile_n = self.tile
        halves = 2 if self.promotion == "halves" else 1
        reads = (halves * INSTRUCTION_M + tile_n) * INSTRUCTION_K_BYTES / SMEM_BYTES_PER_CLOCK
        port = instructions * reads + WRITTEN_SHARE * (tile_m + tile_n)
        math = max(self.wgmma, PORT_SHARE * port)
        if self.promotion:
            promotion = PROMOTION_CLOCKS[self.promotion] * tile_m * tile_n / LANES
            vector = (self.problem.scales == "1x128" and tile_m < TALL) or self.swapped
            hidden = THREE if tile_m == THREE_ROWS else 1.0
            math += promotion * hidden * (VECTOR_PROMOTION if vector else 1.0)
        return float(math + STAGE_CLOCKS / self.stage_boxes)

    def blocks_down(self, ctas: int) -> list[int]:
        """Likely numbers of blocks of `ctas` tiles below each other that hold rows of a group."""
        if ctas not in self._blocks_down:
            rows = (self.tile[1] if self.swapped else self.tile[0]) * ctas
            tiles = likely_tiles(self.problem, rows, skips=not self.swapped)
            blocks = [max(1, ceil(count)) for count in tiles]
            self._blocks_down[ctas] = blocks if blocks[0] < blocks[-1] else blocks[:1]
        return self._blocks_down[ctas]

    def terms(self, tactic: Tactic) -> Terms:
        """The terms of a tactic's time: means over the likely numbers of tiles."""
        m, n = (max(side, 1) for side in extents(tactic.cluster))
        splits = tactic.splits
        size = m * n * splits
        at_once = max(1, self.device.clusters_at_once(size))  # `misfit_device` rejects a cluster with 0
        down, across = (n, m) if self.swapped else (m, n)  # thread blocks of a cluster in D
        likely = [max(1.0, count * ceil(self.across / across)) for count in self.blocks_down(down)]
        boxes = -(-self.boxes // (splits * self.stage_boxes)) * self.stage_boxes
        box = self._box(m, n, at_once * size)
        power_of_block = m * n * self._power / self.device.sm_count
        loop = whole = waves = 0.0
        for blocks in likely:
            full, rest = divmod(blocks, at_once)
            its_loop = boxes * (full * box + (self._box(m, n, rest * size) if rest else 0.0))
            limits = its_loop**OVERLAP + self._hbm**OVERLAP + (blocks * power_of_block) ** OVERLAP
            whole += limits ** (1 / OVERLAP) / len(likely)
            loop += its_loop / len(likely)
            waves += (full + (rest > 0)) / len(likely)
        blocks = sum(likely) / len(likely)
        power = blocks * power_of_block
        added = START_CLOCKS + self.epilogue * waves
        if self.smem_bytes <= TWO_AT_ONCE_BYTES:
            added -= TWO_AT_ONCE_CLOCKS
        if self.weights_first:
            added -= WEIGHTS_FIRST_CLOCKS
        added += FULL_START_CLOCKS * min(1.0, blocks * size / self.device.sm_count)
        if size > 1:
            added += CLUSTER_CLOCKS
        if splits > 1 or (self.problem.c and bits(self.problem.d) == 16):
            added += self._exchange * waves
        return Terms(m, n, splits, size, at_once, blocks, waves, boxes, loop, self._hbm, power, whole, added)

    def estimate(self, terms: Terms, correction: float = 1.0) -> Estimate:
        """The time of these terms, multiplied by `correction`."""
        inside = "math" if self.math * terms.waves * terms.boxes > 0.8 * terms.loop else "fill"
        _, bound = max((terms.loop, inside), (terms.hbm, "hbm"), (terms.power, "power"))
        whole, added = terms.whole / self.hertz * correction, terms.added / self.hertz * correction
        return Estimate(whole + added, round(terms.waves), bound, whole, added)

    def _box(self, m: int, n: int, busy: float) -> float:
        """Clocks of a box while `busy` thread blocks load. Multicast: thread blocks of a cluster in one row
        share A, in one column B."""
        rows_a, rows_b = self.tile[0] / n, self.tile[1] / m
        weights = rows_a if self.swapped else rows_b
        loaded = (rows_a + rows_b + WEIGHTS_SHARE * weights) * BOX_BYTES
        fill = loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / L2_BYTES_PER_CLOCK)
        return float((self._undisturbed + fill**DISTURBANCE) ** (1 / DISTURBANCE))


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel; None if it is for another architecture."""
    if not has_tensor_core(record.arch, WGMMA):
        return None
    kernel = Kernel(record, problem, device)
    return lambda tactic: kernel.estimate(kernel.terms(tactic))
