"""A model of how long a tactic takes on sm_90a: enough to rank tactics, not to predict a clock.

Thread blocks are persistent, one to an SM. Each SM works through its share of the tiles; a tile's
main loop takes the longest of what the tensor core, the tensor core's shared-memory port and the
SM's share of L2 take for it; the whole takes no less than its bytes take through HBM and L2. What does
not overlap is added: launch, the first stage's latency, epilogues, the exchange of partial sums.

Every number that is not the hardware's own is named here, so that measurements can correct it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

from tilewright.device import DeviceProperties
from tilewright.ops.gemm.problem import BYTES, FP8, Problem
from tilewright.ops.gemm.tactics import Tactic
from tilewright.table import KernelRecord

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
INSTRUCTION_K_BYTES = 32  # of k that one wgmma takes, of either operand
INSTRUCTION_M = 64
SMEM_BYTES_PER_CLOCK = 128  # an SM's shared memory; wgmma reads both operands from it
L2_BYTES_PER_CLOCK = 5120  # all of L2
SM_FILL_BYTES_PER_CLOCK = 64  # an SM's port to L2

# Estimates, to be corrected by measurement.
CLOCK_SHARE = 0.85  # of the highest clock, under load
FILL_SHARE = 0.75  # of L2's and the port's rate that streams reach
HBM_SHARE = 0.86  # of the rated bandwidth that a copy reaches (4.1 of 4.8 TB/s)
L2_SHARE_FOR_OPERANDS = 0.6  # of L2 that holds operands until they are read again
ITERATION_CLOCKS = 24  # barriers around one stage
FIRST_STAGE_CLOCKS = 1800  # tensor maps, first loads from HBM
EPILOGUE_CLOCKS = 600  # latency of an epilogue apart from its bytes
EPILOGUE_BYTES_PER_CLOCK = 32  # through shared memory to L2, an SM
PROMOTION_SHARE = 0.5  # of FP8's separate accumulation that does not overlap with wgmma
LAUNCH_SECONDS = 2.2e-6
WORKSPACE_SECONDS = 1.8e-6  # clearing a stream-K workspace: one more node before the kernel
EXCHANGE_CLOCKS = 2200  # a barrier in global memory between two parts of a tile
CLUSTER_SHARE = {1: 1.0, 2: 1.0, 4: 0.97, 8: 0.91}  # SMs that whole clusters cover: GPCs have 16 or 18
CLUSTER_CLOCKS = 300  # barriers of a cluster, its CTAs waiting for the slowest


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one launch, and what they are made of."""

    seconds: float
    waves: int  # tiles (or parts of tiles) that the busiest SM works through
    bound: str  # what the main loop waits for: math, smem, fill, l2 or hbm
    main_loop: float
    overhead: float


@dataclass(frozen=True, slots=True)
class _Work:
    """How a tactic cuts the problem."""

    tiles: int
    k_tiles: int
    sms: int
    tile_m: int  # in the kernel's own terms
    tile_n: int
    tile_k: int


def _cut(record: KernelRecord, problem: Problem, device: DeviceProperties) -> _Work:
    config = record.config
    tile_m, tile_n, tile_k = config["tile"]
    cluster_m, cluster_n = config["cluster"]
    rows, columns = (problem.n, problem.m) if config["swap_ab"] else (problem.m, problem.n)
    # A cluster at the border works on tiles that do not exist.
    tiles_m = ceil(ceil(rows / tile_m) / cluster_m) * cluster_m
    tiles_n = ceil(ceil(columns / tile_n) / cluster_n) * cluster_n
    cluster = cluster_m * cluster_n
    sms = max(cluster, int(device.sm_count * CLUSTER_SHARE.get(cluster, 0.9)) // cluster * cluster)
    return _Work(tiles_m * tiles_n * problem.batch, ceil(problem.k / tile_k), sms, tile_m, tile_n, tile_k)


def _iteration(record: KernelRecord, problem: Problem, work: _Work, busy: int) -> tuple[float, str]:
    """Clocks of one k tile of one tile while `busy` SMs work, and what bounds them."""
    size = BYTES[problem.a]
    cluster_m, cluster_n = record.config["cluster"]
    instructions = work.tile_k * size / INSTRUCTION_K_BYTES * (work.tile_m / INSTRUCTION_M)
    math = instructions * work.tile_n / 2
    smem = instructions * (INSTRUCTION_M + work.tile_n) * INSTRUCTION_K_BYTES / SMEM_BYTES_PER_CLOCK
    if problem.a in FP8 and not record.config["fast_accum"]:
        # Every 128 bytes of k each accumulator is added to a second one, 128 lanes a clock.
        math += PROMOTION_SHARE * work.tile_m * work.tile_n / 128 * (work.tile_k * size / 128)
    # Multicast: CTAs of a cluster in one row share A, in one column B.
    loaded = (work.tile_m / cluster_n + work.tile_n / cluster_m) * work.tile_k * size
    fill = loaded / (SM_FILL_BYTES_PER_CLOCK * FILL_SHARE)
    l2 = loaded * busy / (L2_BYTES_PER_CLOCK * FILL_SHARE)
    clocks, bound = max((math, "math"), (smem, "smem"), (fill, "fill"), (l2, "l2"))
    return clocks + ITERATION_CLOCKS, bound


def _hbm_bytes(problem: Problem, work: _Work, device: DeviceProperties) -> float:
    """Bytes through HBM: each matrix once where the operands stay in L2, more where waves reread them."""
    size = BYTES[problem.a]
    operands = problem.batch * (problem.m + problem.n) * problem.k * size
    outputs = problem.bytes - operands
    if operands <= device.l2_bytes * L2_SHARE_FOR_OPERANDS:
        return operands + outputs
    # A wave covers a block of tiles about as wide as high, and reads its rows and columns once.
    waves = max(1.0, work.tiles / work.sms)
    side = sqrt(work.tile_m * work.tile_n * min(work.tiles, work.sms))
    reread = waves * 2 * side * problem.k * size
    return max(operands, min(reread, operands * waves)) + outputs


def _stream_k_share(tactic: Tactic, work: _Work) -> tuple[float, int, int]:
    """k tiles of the busiest SM, its tiles' epilogues, and parts that a tile is cut into at most."""
    if tactic.decomposition == "split_k":
        parts = work.tiles * tactic.splits
        waves = ceil(parts / work.sms)
        return waves * ceil(work.k_tiles / tactic.splits), waves, tactic.splits
    whole = work.tiles // work.sms
    if tactic.decomposition == "data_parallel" or work.tiles % work.sms == 0:
        waves = ceil(work.tiles / work.sms)
        return waves * work.k_tiles, waves, 1
    # CUTLASS gives the last full wave and the rest to stream-K units of at least 8 k tiles.
    rest = work.tiles - max(0, whole - 1) * work.sms
    units = min(work.sms, max(1, rest * work.k_tiles // 8))
    share = ceil(rest * work.k_tiles / units)
    parts = 1 if rest >= units and rest % units == 0 else ceil(units / rest) + 1
    return max(0, whole - 1) * work.k_tiles + share, max(0, whole - 1) + 1, parts


def estimate(tactic: Tactic, record: KernelRecord, problem: Problem, device: DeviceProperties) -> Estimate:
    """Seconds that one launch takes, from the first block's start to the last store."""
    work = _cut(record, problem, device)
    stream_k = record.config["scheduler"] == "stream_k"
    parts = 1
    if stream_k:
        k_tiles, epilogues, parts = _stream_k_share(tactic, work)
        busy = min(work.sms, work.tiles * max(1, work.k_tiles // 8))
    else:
        epilogues = ceil(work.tiles / work.sms)
        k_tiles = epilogues * work.k_tiles
        busy = min(work.sms, work.tiles)
    clock = device.clock_hz * CLOCK_SHARE
    iteration, bound = _iteration(record, problem, work, busy)
    main_loop = k_tiles * iteration / clock
    hbm = _hbm_bytes(problem, work, device) / (device.memory_bandwidth * HBM_SHARE)
    if hbm > main_loop:
        main_loop, bound = hbm, "hbm"

    tile_bytes = work.tile_m * work.tile_n * BYTES[problem.d] * (2 if problem.c else 1)
    epilogue = EPILOGUE_CLOCKS + tile_bytes / EPILOGUE_BYTES_PER_CLOCK
    # Ping-pong stores a tile while the other warpgroup computes; only the last store shows.
    shown = 1 if record.config["schedule"] == "pingpong" else epilogues
    clocks = FIRST_STAGE_CLOCKS + shown * epilogue
    if record.config["cluster"] != [1, 1]:
        clocks += CLUSTER_CLOCKS
    overhead = LAUNCH_SECONDS
    if parts > 1:
        # A deterministic reduction goes from part to part: each reads and writes the sums so far.
        exchange = EXCHANGE_CLOCKS + 2 * work.tile_m * work.tile_n * 4 / (
            SM_FILL_BYTES_PER_CLOCK * FILL_SHARE
        )
        clocks += exchange * (parts - 1)
        overhead += WORKSPACE_SECONDS
    overhead += clocks / clock
    return Estimate(main_loop + overhead, epilogues, bound, main_loop, overhead)
