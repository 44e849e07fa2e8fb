"""A model of how long a tactic of a lean kernel takes on sm_90a: to rank tactics, not to predict a clock.

Clusters of persistent thread blocks, one block to an SM, work through blocks of tiles in waves. 128 bytes of
k take about the longest of what the tensor cores, the SM's loads and the latency of the stages in flight
need; that is the norm of the three, because they disturb each other. A whole launch can beat neither HBM nor
the rate that the GPU's power sustains. What does not overlap is added: launch, the first stage's latency,
barriers of a cluster, epilogues, the exchange of a split k's sums.

Numbers that are not the hardware's own are fitted to 58,000 times of 115 tiles over 243 problems drawn at
random (bf16, e4m3 -> bf16; m from 3 to 7,152, never a power of two) on one H200, L2 cold, launches back to
back. Of the tactics that were measured, the model's first is 4 % slower in geomean than the best, 25 % at
worst; times repeat to 2 or 3 %.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import lean
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # of k: a row of a box of TMA
STEPS = 4  # wgmma instructions of a box, for each 64 rows
INSTRUCTION_M = 64
INSTRUCTION_K_BYTES = 32
SMEM_BYTES_PER_CLOCK = 128  # an SM's shared memory; wgmma reads both operands from it
CLOCK_SHARE = 0.886  # of the highest clock, at which the numbers below count: 1755 of 1980 MHz

# Fitted. 128 bytes of k:
STAGE_CLOCKS = {"cooperative": 35, "pingpong": 53}  # barriers around a stage
PORT_SHARE = 0.77  # of the clocks that the shared memory's port would take on paper, reads and writes in turn
WRITTEN_SHARE = 1.08  # of a clock, that a byte a row of TMA's writes takes there, beside wgmma's reads
PROMOTION_SHARE = 1.8  # of the clocks that FP8's exact accumulation takes on paper; gemm's
LATENCY_CLOCKS = 1190  # from a load to its data
STAGES_BEHIND = 2.25  # that are not in flight: one is read, one is being released
SM_FILL_BYTES_PER_CLOCK = 61  # an SM from L2, if few others load
L2_BYTES_PER_CLOCK = 6740  # L2 to all SMs
DISTURBANCE = 5.6  # the norm in which the tensor cores, loads and latency add up

# One launch.
HBM_SHARE = 1.0  # of the rated bandwidth
L2_OPERANDS = 35e6  # bytes of operands that L2 holds until they are read again
REREAD_SHARE = 0.46  # of what waves read again, that comes from HBM
OVERLAP = 2.95  # the norm in which the main loop, HBM and power add up
SUSTAINED_SHARE = {1: 1.0, 2: 0.99}  # of the peak at the clock above, by bytes of an element
START_CLOCKS = 2160  # launch, tensor maps, the first stage's loads from HBM
FULL_START_CLOCKS = 2870  # more, where every SM is taken: the next launch cannot prepare beside this one
EPILOGUE_CLOCKS = 50  # beside its bytes
EPILOGUE_BYTES_PER_CLOCK = 22.7  # of D, an SM
CLUSTER_CLOCKS = 2010  # of two barriers of a cluster, and its start
EXCHANGE_CLOCKS = 146
EXCHANGE_BYTES_PER_CLOCK = 16.8  # sums written, and read from other SMs' shared memory


class _Work(NamedTuple):
    """A problem in the kernel's own terms (where operands swap, m is n), as far as no tactic changes it."""

    down: int  # tiles
    across: int
    boxes: int  # of k
    math: float  # clocks of a box, of the tensor cores
    latency: float  # clocks of a box, while all stages are in flight
    power: float  # clocks of a tile, below which the GPU's power does not let the multiplications go
    epilogue: float  # clocks of a tile
    exchange: float  # clocks of a tile whose k is split


def _work(record: KernelRecord, problem: Problem) -> _Work:
    config = record.config
    size = bytes_of(problem.a)
    tile_m, tile_n, tile_k = config["tile"]
    rows, columns = (problem.n, problem.m) if config["swap_ab"] else (problem.m, problem.n)
    stage_boxes = tile_k * size // BOX_BYTES
    pingpong = config["schedule"] == "pingpong"
    across = 2 if not pingpong and tile_m % 128 == INSTRUCTION_M and tile_m > INSTRUCTION_M else 1
    instructions = STEPS * tile_m / INSTRUCTION_M
    reads = across * (INSTRUCTION_M + tile_n / across) * INSTRUCTION_K_BYTES / SMEM_BYTES_PER_CLOCK
    port = instructions * reads + WRITTEN_SHARE * (tile_m + tile_n)
    math = max(instructions * tile_n / 2, PORT_SHARE * port)
    if size == 1 and not config["fast_accum"]:
        math += PROMOTION_SHARE * tile_m * tile_n / 128  # 128 lanes add the sums of a box to a second set
    math += STAGE_CLOCKS["pingpong" if pingpong else "cooperative"] / stage_boxes
    in_flight = max(1.0, (record.facts["stages"] - STAGES_BEHIND) * stage_boxes)
    boxes = ceil(ceil(problem.k * size / BOX_BYTES) / stage_boxes) * stage_boxes
    tile = tile_m * tile_n
    outputs = bytes_of(problem.d) * (2 if problem.c else 1) / 2
    return _Work(
        ceil(rows / tile_m),
        ceil(columns / tile_n),
        boxes,
        math,
        LATENCY_CLOCKS / in_flight,
        instructions * tile_n / 2 * boxes / SUSTAINED_SHARE[size],
        EPILOGUE_CLOCKS + tile * 2 * outputs / EPILOGUE_BYTES_PER_CLOCK,
        EXCHANGE_CLOCKS + tile * 4 / EXCHANGE_BYTES_PER_CLOCK,
    )


def _hbm_bytes(problem: Problem, tile: int, tiles: int, at_once: float) -> float:
    """Bytes through HBM: each matrix once where the operands stay in L2, more where waves reread them."""
    size = bytes_of(problem.a)
    operands = problem.batch * (problem.m + problem.n) * problem.k * size
    outputs = problem.bytes - operands
    if operands <= L2_OPERANDS:
        return float(operands + outputs)
    waves = max(1.0, tiles / at_once)
    # A wave covers a block of tiles about as wide as high, and reads its rows and columns once.
    reread = waves * 2 * sqrt(tile * min(tiles, at_once)) * problem.k * size
    return max(operands, min(reread, operands * waves) * REREAD_SHARE) + outputs


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    tile_m, tile_n, tile_k = record.config["tile"]
    work = _work(record, problem)
    stage_boxes = tile_k * bytes_of(problem.a) // BOX_BYTES
    pingpong = record.config["schedule"] == "pingpong"
    clock = device.clock_hz * CLOCK_SHARE
    undisturbed = work.math**DISTURBANCE + work.latency**DISTURBANCE
    l2_share = 1 / L2_BYTES_PER_CLOCK
    hbm_share = clock / (device.memory_bandwidth * HBM_SHARE)

    def weigh(tactic: Tactic) -> Estimate:
        m, n = lean.cluster_of(tactic)
        splits = tactic.splits
        size = m * n * splits
        at_once = device.clusters_at_once(size)
        down, across = -(-work.down // m), -(-work.across // n)
        blocks = down * across * problem.batch
        full, rest = divmod(blocks, at_once)
        boxes = -(-work.boxes // (splits * stage_boxes)) * stage_boxes
        # Multicast: CTAs of a cluster in one row share A, in one column B.
        loaded = (tile_m / n + tile_n / m) * BOX_BYTES

        def box(busy: int) -> float:
            fill = loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy * l2_share)
            return float((undisturbed + fill**DISTURBANCE) ** (1 / DISTURBANCE))

        waves = full + (rest > 0)
        loop = boxes * ((full * box(at_once * size) if full else 0.0) + (box(rest * size) if rest else 0.0))
        hbm = _hbm_bytes(problem, tile_m * tile_n, blocks * m * n, at_once * m * n) * hbm_share
        power = blocks * m * n * work.power / device.sm_count
        whole = (loop**OVERLAP + hbm**OVERLAP + power**OVERLAP) ** (1 / OVERLAP)
        # Ping-pong stores a tile while the other warpgroup computes; only the last store shows.
        added = START_CLOCKS + work.epilogue * (1 if pingpong else waves)
        added += FULL_START_CLOCKS * min(1.0, blocks * size / device.sm_count)
        if size > 1:
            added += CLUSTER_CLOCKS
        if splits > 1:
            added += work.exchange * waves
        inside = "math" if work.math * waves * boxes > 0.8 * loop else "fill"
        _, bound = max((loop, inside), (hbm, "hbm"), (power, "power"))
        return Estimate((whole + added) / clock, waves, bound, whole / clock, added / clock)

    return weigh
