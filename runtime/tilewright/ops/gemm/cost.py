"""A model of how long a tactic takes on sm_90a: enough to rank tactics, not to predict a clock.

Thread blocks are persistent, one to an SM, and work through the tiles in waves. One k tile takes about the
longest of what the tensor core, the SM's loads and HBM need for it; that is the norm of the three, because
they disturb each other. A whole launch cannot beat the rate that the GPU's power sustains. What does not
overlap is added: launch, the first stage's latency, epilogues, the exchange of partial sums.

Numbers that are not the hardware's own are fitted to the times of every tactic of the 67 kernels that take
97 problems of linear layers (bf16, e4m3 -> bf16, m from 16 to 4096) on one H200, L2 cold, launches back to
back. Fitted to half of the layers, they choose as well for the other half. A sample of the times is in
tests/runtime/data.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.problem import FP8, Kind, Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
INSTRUCTION_K_BYTES = 32  # of k that one wgmma takes, of either operand
INSTRUCTION_M = 64
SMEM_BYTES_PER_CLOCK = 128  # an SM's shared memory; wgmma reads both operands from it

# Fitted, each with the measurements that say most about it. First one k tile:
EIGHT_BIT_MATH_SHARE = 0.94  # of the tensor core's rate; 16-bit types reach it (m of 256 and more)
ITERATION_CLOCKS = {"cooperative": 110, "pingpong": 135}  # barriers around one stage (m of 256)
SM_FILL_BYTES_PER_CLOCK = 96  # an SM from L2, if few others load (k of 7168 for n of 2112)
L2_BYTES_PER_CLOCK = 6400  # L2 to all SMs (tiles of 64 rows, m of 128)
OUTSIDE_BYTES_PER_CLOCK = 18  # zeros for rows that do not exist: 64x64 takes longer for m of 16 than of 64
HBM_SHARE = 0.92  # of the rated bandwidth (m of 16)
L2_SHARE_FOR_OPERANDS = 0.7  # of L2 that holds operands until they are read again (m of 1024)
PROMOTION_SHARE = 1.8  # of the clocks that FP8's exact accumulation takes on paper (kernels without fastacc)
DISTURBANCE = 3  # the norm in which math, loads and HBM add up

# One launch:
CLUSTER_SHARE = {1: 1.0, 2: 1.0, 4: 0.91, 8: 0.85}  # of the SMs, that whole clusters cover (4x1)
SUSTAINED_SHARE = {1: 0.72, 2: 0.76, 4: 0.76}  # of the peak, by bytes of an element (m of 4096, n of 8192)
SUSTAINED_NORM = 8  # how sharply power takes over
LAUNCH_SECONDS = 1.1e-6  # beyond what programmatic launches overlap (problems of 7 us)
FIRST_STAGE_CLOCKS = 1000  # tensor maps, first loads from HBM (m of 16)
EPILOGUE_CLOCKS = 250  # latency of an epilogue apart from its bytes
EPILOGUE_BYTES_PER_CLOCK = 13  # of D, an SM (k of 1536)
CLUSTER_CLOCKS = 190  # barriers of a cluster, its CTAs waiting for the slowest

# Stream-K kernels, against the same tiles without:
STREAM_K_SECONDS = 3.8e-6  # the workspace's clearing: a node before the kernel, which then overlaps nothing
STREAM_K_TILE_CLOCKS = 2500  # their scheduler does not overlap tiles (k of 1536, 24 tiles to an SM)
EXCHANGE_CLOCKS = 330  # a barrier in global memory between two parts of a tile
EXCHANGE_BYTES_PER_CLOCK = 45  # a part's sums, written and read (8 to 16 splits)
MIN_STREAM_K_TILES = 8  # k tiles that CUTLASS gives a stream-K unit at least


class _Work(NamedTuple):
    """How a tactic cuts the problem, in the kernel's own terms (where operands swap, m is n)."""

    rows: int
    columns: int
    tiles: int
    sms: int
    k_tiles: int
    grid_m: int  # tiles, those of a border cluster that do not exist included
    grid_n: int


class _Share(NamedTuple):
    """What the busiest SM does: whole waves, then a last one on `busy` SMs."""

    full_waves: int
    full_k_tiles: int
    busy: int
    last_k_tiles: int
    epilogues: float
    parts: int  # that a tile is cut into at most


def peak(kind: Kind, device: DeviceProperties) -> float | None:
    """Operations a second of the tensor cores for a kind of problem; None beyond sm_90."""
    if device.capability != (9, 0):
        return None
    return 2 * _multiplications(bytes_of(kind.a)) * device.sm_count * device.clock_hz


def _multiplications(size: int) -> float:
    """Of an SM a clock, of operands of so many bytes: a wgmma of n columns takes n / 2 clocks."""
    return 2 * INSTRUCTION_M * INSTRUCTION_K_BYTES / size


def _cut(record: KernelRecord, problem: Problem, device: DeviceProperties) -> _Work:
    tile_m, tile_n, tile_k = record.config["tile"]
    cluster_m, cluster_n = record.config["cluster"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    grid_m = ceil(ceil(rows / tile_m) / cluster_m) * cluster_m
    grid_n = ceil(ceil(columns / tile_n) / cluster_n) * cluster_n
    cluster = cluster_m * cluster_n
    sms = max(cluster, int(device.sm_count * CLUSTER_SHARE.get(cluster, 0.8)) // cluster * cluster)
    tiles = grid_m * grid_n * problem.batch
    return _Work(rows, columns, tiles, sms, ceil(problem.k / tile_k), grid_m, grid_n)


def _share(tactic: Tactic, work: _Work) -> _Share:
    parts = tactic.splits if tactic.decomposition == "split_k" else 1
    if tactic.decomposition != "stream_k" or work.tiles % work.sms == 0:
        full, rest = divmod(work.tiles * parts, work.sms)
        k_tiles = ceil(work.k_tiles / parts)
        return _Share(full, k_tiles, rest, k_tiles, full + (rest > 0), parts)
    # CUTLASS gives the last full wave and the rest to stream-K units.
    full = max(0, work.tiles // work.sms - 1)
    rest = work.tiles - full * work.sms
    units = min(work.sms, max(1, rest * work.k_tiles // MIN_STREAM_K_TILES))
    k_tiles = ceil(rest * work.k_tiles / units)
    parts = 1 if rest >= units and rest % units == 0 else ceil(units / rest) + 1
    # A unit that does not start with a tile works on one tile more than it could fill.
    epilogues = full + (k_tiles / work.k_tiles + 1 if parts > 1 else ceil(k_tiles / work.k_tiles))
    return _Share(full, work.k_tiles, units, k_tiles, epilogues, parts)


def _wgmma_clocks(record: KernelRecord, size: int) -> float:
    """Of one k tile: by the tensor core, or by its shared-memory port where the tile is narrow."""
    tile_m, tile_n, tile_k = record.config["tile"]
    instructions = tile_k * size / INSTRUCTION_K_BYTES * (tile_m / INSTRUCTION_M)
    smem = (INSTRUCTION_M + tile_n) * INSTRUCTION_K_BYTES / SMEM_BYTES_PER_CLOCK
    rate = EIGHT_BIT_MATH_SHARE if size == 1 else 1.0
    return float(instructions * max(tile_n / 2 / rate, smem))


class _Iteration(NamedTuple):
    """What one k tile of one tile needs."""

    math: float  # clocks
    loaded: float  # bytes from L2
    outside: float  # clocks in which TMA writes zeros
    hbm: float  # clocks of all of HBM

    def needs(self, busy: int) -> tuple[float, float, float]:
        """Clocks of the tensor core, of the SM's loads and of HBM while `busy` SMs work."""
        fill = self.loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / L2_BYTES_PER_CLOCK)
        return self.math, fill + self.outside, self.hbm * busy

    def clocks(self, busy: int) -> float:
        math, fill, hbm = self.needs(busy)
        return float((math**DISTURBANCE + fill**DISTURBANCE + hbm**DISTURBANCE) ** (1 / DISTURBANCE))


def _iteration(record: KernelRecord, problem: Problem, work: _Work, device: DeviceProperties) -> _Iteration:
    size = bytes_of(problem.a)
    tile_m, tile_n, tile_k = record.config["tile"]
    cluster_m, cluster_n = record.config["cluster"]
    math = _wgmma_clocks(record, size) + ITERATION_CLOCKS[record.config["schedule"]]
    if problem.a in FP8 and not record.config["fast_accum"]:
        # Every 128 bytes of k each accumulator is added to a second one, 128 lanes a clock.
        math += PROMOTION_SHARE * tile_m * tile_n / 128 * (tile_k * size / 128)
    # Multicast: CTAs of a cluster in one row share A, in one column B.
    held_m, held_n = work.rows / work.grid_m, work.columns / work.grid_n  # that exist, of a tile
    loaded = (held_m / cluster_n + held_n / cluster_m) * tile_k * size
    outside = ((tile_m - held_m) / cluster_n + (tile_n - held_n) / cluster_m) * tile_k * size
    hbm_bytes_per_clock = device.memory_bandwidth * HBM_SHARE / device.clock_hz
    hbm = _hbm_bytes(record, problem, work, device) / (work.tiles * work.k_tiles) / hbm_bytes_per_clock
    return _Iteration(math, loaded, outside / OUTSIDE_BYTES_PER_CLOCK, hbm)


def _hbm_bytes(record: KernelRecord, problem: Problem, work: _Work, device: DeviceProperties) -> float:
    """Bytes through HBM: each matrix once where the operands stay in L2, more where waves reread them."""
    size = bytes_of(problem.a)
    operands = problem.batch * (problem.m + problem.n) * problem.k * size
    outputs = problem.bytes - operands
    if operands <= device.l2_bytes * L2_SHARE_FOR_OPERANDS:
        return operands + outputs
    # A wave covers a block of tiles about as wide as high, and reads its rows and columns once.
    tile_m, tile_n, _ = record.config["tile"]
    waves = max(1.0, work.tiles / work.sms)
    reread = waves * 2 * sqrt(tile_m * tile_n * min(work.tiles, work.sms)) * problem.k * size
    return max(operands, min(reread, operands * waves)) + outputs


def _power_clocks(record: KernelRecord, problem: Problem, work: _Work, device: DeviceProperties) -> float:
    """Clocks below which the GPU's power does not let the multiplications go, however they are spread."""
    size = bytes_of(problem.a)
    tile_m, tile_n, tile_k = record.config["tile"]
    multiplications = work.tiles * work.k_tiles * tile_m * tile_n * tile_k
    return float(multiplications / _multiplications(size) / device.sm_count / SUSTAINED_SHARE[size])


def _main_loop(
    iteration: _Iteration, whole: float, power: float, work: _Work, share: _Share
) -> tuple[float, str]:
    """Clocks of all k tiles of the busiest SM, and what bounds them; `whole`: of one in a full wave."""
    clocks = share.full_waves * share.full_k_tiles * whole
    if share.busy:
        clocks += share.last_k_tiles * iteration.clocks(share.busy)
    math, fill, hbm = iteration.needs(work.sms if share.full_waves else share.busy)
    _, bound = max((math, "math"), (fill, "fill"), (hbm, "hbm"))
    if power > clocks:
        bound = "power"
    return float((clocks**SUSTAINED_NORM + power**SUSTAINED_NORM) ** (1 / SUSTAINED_NORM)), bound


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    config = record.config
    work = _cut(record, problem, device)
    iteration = _iteration(record, problem, work, device)
    whole = iteration.clocks(work.sms)
    power = _power_clocks(record, problem, work, device)
    tile = config["tile"][0] * config["tile"][1]
    moved = tile * bytes_of(problem.d) * (2 if problem.c else 1)
    epilogue = EPILOGUE_CLOCKS + moved / EPILOGUE_BYTES_PER_CLOCK
    exchange = EXCHANGE_CLOCKS + 2 * tile * 4 / EXCHANGE_BYTES_PER_CLOCK
    seconds = LAUNCH_SECONDS + (STREAM_K_SECONDS if config["scheduler"] == "stream_k" else 0)
    fixed = FIRST_STAGE_CLOCKS + (CLUSTER_CLOCKS if config["cluster"] != [1, 1] else 0)
    each = STREAM_K_TILE_CLOCKS if config["scheduler"] == "stream_k" else 0

    def weigh(tactic: Tactic) -> Estimate:
        share = _share(tactic, work)
        clocks, bound = _main_loop(iteration, whole, power, work, share)
        # Ping-pong stores a tile while the other warpgroup computes; only the last store shows.
        shown = 1 if config["schedule"] == "pingpong" else share.epilogues
        # A deterministic reduction goes from part to part: each reads and writes the sums so far.
        added = fixed + shown * epilogue + share.epilogues * each + (share.parts - 1) * exchange
        main_loop, overhead = clocks / device.clock_hz, seconds + added / device.clock_hz
        return Estimate(main_loop + overhead, ceil(share.epilogues), bound, main_loop, overhead)

    return weigh


def estimate(tactic: Tactic, record: KernelRecord, problem: Problem, device: DeviceProperties) -> Estimate:
    """Seconds that one launch takes, from the first block's start to the last store."""
    return estimator(record, problem, device)(tactic)
