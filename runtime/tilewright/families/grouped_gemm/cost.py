"""A model of how long a tactic takes on sm_90a: to rank tactics, not to predict a clock.

Clusters of persistent thread blocks, one block to an SM, work through tiles in waves. A stage takes about
the longest of what the tensor cores, shared memory's port, the SM's loads and the latency of the stages in
flight need: the norm of them, because they disturb each other. A whole launch can beat neither HBM nor the
rate that the GPU's power sustains. Launch, epilogues and the exchange of a split k's sums are added.

How many tiles there are depends on how rows are spread over groups, which the device alone knows: groups
are taken to have the same number of rows but for 30 % more or less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate

# The hardware (CUDA programming guide, NVIDIA's H100 white paper).
BOX_BYTES = 128  # of k: a row of a box of TMA
STEPS = 4  # wgmma instructions of a box, for each 64 rows
INSTRUCTION_M = 64
INSTRUCTION_K_BYTES = 32
SMEM_BYTES_PER_CLOCK = 128  # an SM's shared memory; wgmma reads both operands from it
LANES = 128  # of an SM that multiply F32
CLOCK_SHARE = 0.886  # of the highest clock, at which the numbers below count: 1755 of 1980 MHz

# As of gemm's lean kernels, which share mainloop and producer: fitted to 58,000 times of theirs on an H200.
STAGE_CLOCKS = 35  # barriers around a stage
PORT_SHARE = 0.77  # of the clocks that the shared memory's port would take on paper
WRITTEN_SHARE = 1.08  # of a clock, that a byte a row of TMA's writes takes there
LATENCY_CLOCKS = 1190  # from a load to its data
STAGES_BEHIND = 1.5  # that are not in flight: one that is read, and half of the next
SM_FILL_BYTES_PER_CLOCK = 61  # an SM from L2, if few others load
L2_BYTES_PER_CLOCK = 6740  # L2 to all SMs
DISTURBANCE = 5.6  # the norm in which the tensor cores, loads and latency add up
OVERLAP = 2.95  # the norm in which the main loop, HBM and power add up
START_CLOCKS = 2160  # launch, tensor maps, the first stage's loads from HBM
TWO_AT_ONCE_BYTES = 113 * 1024  # of shared memory, up to which an SM holds a block of the next launch, too
TWO_AT_ONCE_CLOCKS = 1000  # that it starts earlier then
FULL_START_CLOCKS = 2870  # more, where every SM is taken
EPILOGUE_CLOCKS = 50  # beside its bytes
EPILOGUE_BYTES_PER_CLOCK = 22.7  # of D, an SM
ONE_BUFFER = 1.4  # times that, where pieces of D wait for each other
CLUSTER_CLOCKS = 2010  # of two barriers of a cluster, and its start
EXCHANGE_CLOCKS = 146
EXCHANGE_BYTES_PER_CLOCK = 16.8  # sums written, and read from other SMs' shared memory

# Fitted to the tiles of runs on an H200, in turn; promotion to the choices of the 47 problems of
# benchmarks/fit/grouped_times.py, where what is chosen takes 4 % longer than the fastest.
# Of a multiplication of each sum of 128 of k, 128 lanes at a time:
PROMOTION_CLOCKS = {"after": 0.8, "in_turn": 0.8, "overlapped": 1.3, "halves": 1.3}
VECTOR_PROMOTION = 1.5  # times that, where each column has its own factor
SKIPPED_SHARE = 0.6  # of the clocks of 64 rows of a tile that are skipped, that they do not take
TALL = 256  # rows of a tile whose warpgroups load a column's factor once for 128: as if there were one
THREE_ROWS = 192  # of a tile that three warpgroups have, two of which multiply while one promotes
THREE = 0.4  # of the promotion's clocks, that are seen then
SUSTAINED_SHARE = 0.80  # of the peak at the clock above, that the GPU's power sustains of tiles of 128x128
WEIGHTS_SHARE = 0.15  # of B's bytes, that they take longer than A's, which more tiles have read before
TRAFFIC_SHARE = 0.3  # of the power, that goes with the bytes of operands a multiplication takes

_SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # rows of a group, of the expected ones


class _Work(NamedTuple):
    """A problem as a kernel's tiles cut it, as far as no tactic changes it."""

    across: int  # tiles
    boxes: int  # of k
    math: float  # clocks of a box, of the tensor cores and of what does not overlap them
    latency: float  # clocks of a box, while all stages are in flight
    power: float  # clocks of a tile, below which the GPU's power does not let the multiplications go
    epilogue: float  # clocks of a tile
    exchange: float  # clocks of a tile whose sums go through shared memory


def group_rows(problem: Problem) -> int:
    """Of a group, about."""
    if problem.grouping == "rows_valid":
        return min(problem.expected_m or problem.m, problem.m)
    return ceil(problem.m / problem.groups)


def tiles_down(problem: Problem, rows: int, *, skips: bool = False) -> float:
    """Tiles of so many rows that hold any of a group's, in all groups; one that `skips` 64 rows of which none
    is a group's counts less for them."""
    if problem.grouping in ("none", "k_sizes"):
        return ceil(problem.m / rows) * problem.groups
    if problem.grouping == "rows_valid":
        expected = problem.expected_m
        if not expected or expected >= problem.m:
            return ceil(problem.m / rows) * problem.groups
        counts = [min(problem.m, expected * share) for share in _SPREAD]
        tiles: list[float] = [ceil(count / rows) for count in counts]
        if skips and rows > INSTRUCTION_M:
            least = INSTRUCTION_M / rows
            left = [1 - ceil(count % rows / INSTRUCTION_M) * least if count % rows else 0 for count in counts]
            tiles = [count - SKIPPED_SHARE * part for count, part in zip(tiles, left, strict=True)]
        return sum(tiles) / len(tiles) * problem.groups
    whole = ceil(problem.m / rows)
    # Tiles that begin where groups do hold one group's rows; others are computed once for each group in them.
    if problem.row_alignment % rows == 0:
        return whole
    return whole + (problem.groups - 1) * (0.5 if problem.grouping == "ends" else 1.0)


def _work(record: KernelRecord, problem: Problem) -> _Work:
    config = record.config
    tile_m, tile_n, tile_k = config["tile"]
    columns = tile_m if config["swap_ab"] else tile_n
    stage_boxes = tile_k * bits(problem.a) // 8 // BOX_BYTES
    instructions = STEPS * tile_m / INSTRUCTION_M
    halves = 2 if config["promotion"] == "halves" else 1
    reads = (halves * INSTRUCTION_M + tile_n) * INSTRUCTION_K_BYTES / SMEM_BYTES_PER_CLOCK
    port = instructions * reads + WRITTEN_SHARE * (tile_m + tile_n)
    math = max(instructions * tile_n / 2, PORT_SHARE * port)
    if problem.scales != "none":
        promotion = PROMOTION_CLOCKS[config["promotion"]] * tile_m * tile_n / LANES
        vector = (problem.scales == "1x128" and tile_m < TALL) or config["swap_ab"]
        hidden = THREE if tile_m == THREE_ROWS else 1.0
        math += promotion * hidden * (VECTOR_PROMOTION if vector else 1.0)
    math += STAGE_CLOCKS / stage_boxes
    in_flight = max(1.0, (record.facts["stages"] - STAGES_BEHIND) * stage_boxes)
    k = problem.k / problem.groups if problem.grouping == "k_sizes" else problem.k
    boxes = ceil(ceil(k * bits(problem.a) / 8 / BOX_BYTES) / stage_boxes) * stage_boxes
    tile = tile_m * tile_n
    traffic = (128 / tile_m + 128 / tile_n) / 2
    power = (1 - TRAFFIC_SHARE + TRAFFIC_SHARE * traffic) / SUSTAINED_SHARE
    outputs = bits(problem.d) / 16 * (2 if problem.c else 1)
    in_turn = ONE_BUFFER if config.get("store_buffers") == 1 else 1.0
    return _Work(
        ceil(problem.n / columns),
        boxes,
        math,
        LATENCY_CLOCKS / in_flight,
        instructions * tile_n / 2 * boxes * power,
        EPILOGUE_CLOCKS + tile * 2 * outputs / EPILOGUE_BYTES_PER_CLOCK * in_turn,
        EXCHANGE_CLOCKS + tile * 4 / EXCHANGE_BYTES_PER_CLOCK,
    )


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    if record.arch != "sm_90a":
        return None
    config = record.config
    tile_m, tile_n, tile_k = config["tile"]
    work = _work(record, problem)
    stage_boxes = tile_k * bits(problem.a) // 8 // BOX_BYTES
    clock = device.clock_hz * CLOCK_SHARE
    undisturbed = work.math**DISTURBANCE + work.latency**DISTURBANCE
    hbm = problem.bytes * clock / device.memory_bandwidth
    rows = tile_n if config["swap_ab"] else tile_m

    @cache
    def blocks_down(ctas: int) -> int:
        return ceil(tiles_down(problem, rows * ctas, skips=not config["swap_ab"]))

    def weigh(tactic: Tactic) -> Estimate:
        m, n = (max(side, 1) for side in extents(tactic.cluster))
        splits = tactic.splits
        size = m * n * splits
        at_once = max(1, device.clusters_at_once(size))  # 0: `misfit_device` refuses it
        down, across = (n, m) if config["swap_ab"] else (m, n)  # thread blocks of a cluster in D
        blocks = max(1.0, blocks_down(down) * ceil(work.across / across))
        full, rest = divmod(blocks, at_once)
        boxes = -(-work.boxes // (splits * stage_boxes)) * stage_boxes
        # Multicast: CTAs of a cluster in one row share A, in one column B.
        of_a, of_b = tile_m / n, tile_n / m
        loaded = (of_a + of_b + WEIGHTS_SHARE * (of_a if config["swap_ab"] else of_b)) * BOX_BYTES

        def box(busy: float) -> float:
            fill = loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / L2_BYTES_PER_CLOCK)
            return float((undisturbed + fill**DISTURBANCE) ** (1 / DISTURBANCE))

        waves = int(full) + (rest > 0)
        loop = boxes * ((full * box(at_once * size) if full else 0.0) + (box(rest * size) if rest else 0.0))
        power = blocks * m * n * work.power / device.sm_count
        whole = (loop**OVERLAP + hbm**OVERLAP + power**OVERLAP) ** (1 / OVERLAP)
        added = START_CLOCKS + work.epilogue * waves
        if record.facts["smem_bytes"] <= TWO_AT_ONCE_BYTES:
            added -= TWO_AT_ONCE_CLOCKS
        added += FULL_START_CLOCKS * min(1.0, blocks * size / device.sm_count)
        if size > 1:
            added += CLUSTER_CLOCKS
        if splits > 1 or (problem.c and bits(problem.d) == 16):
            added += work.exchange * waves
        inside = "math" if work.math * waves * boxes > 0.8 * loop else "fill"
        _, bound = max((loop, inside), (hbm, "hbm"), (power, "power"))
        return Estimate((whole + added) / clock, waves, bound, whole / clock, added / clock)

    return weigh
