"""A model of how long a tactic takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. Clusters of them work through tiles in waves. The unit of k is a
box: the 128 bytes of k that one TMA box is wide. A box takes about as long as the slowest of the tensor
cores, the port of shared memory, the SM's loads and the latency of the stages in flight; the model takes a
p-norm of them, because they disturb each other. A launch can be faster neither than HBM nor than the rate of
multiplications that the GPU's power limit sustains. The launch, the epilogues and the reduction of a split k
are added.

The number of tiles depends on the rows of each group, which only the device knows. The model assumes that
groups have the expected number of rows, give or take 30 %. `clocks` below are SM clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil
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
TALL = 256  # rows of a tile from which on a warpgroup loads column factors once for 128 rows: no such factor
THREE_ROWS = 192  # rows of a tile of three warpgroups, two of which multiply while one promotes
THREE = 0.4  # share of promotion's clocks that such a tile shows
SKIPPED_SHARE = 0.6  # share of the clocks of 64 rows that a tile saves if it skips them
SUSTAINED_SHARE = 0.80  # sustained share of the tensor cores' rate, for tiles of 128x128
WEIGHTS_SHARE = 0.15  # share by which a byte of B takes longer than one of A, which other tiles have read
TRAFFIC_SHARE = 0.3  # share of the power that loading a multiplication's operands takes

_SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # the rows of groups, as shares of the expected number


class _Work(NamedTuple):
    """The parts of a problem's time that no tactic changes."""

    across: int  # tiles across D
    boxes: int  # boxes of k
    math: float  # clocks of a box in the tensor cores, and in work that does not overlap them
    latency: float  # clocks of a box while all stages are in flight
    power: float  # clocks of a tile's multiplications at the rate that power sustains
    epilogue: float  # clocks of a tile's epilogue
    exchange: float  # clocks of a tile's reduction through shared memory


def group_rows(problem: Problem) -> int:
    """The expected rows of a group."""
    if problem.grouping == "rows_valid":
        return min(problem.expected_m or problem.m, problem.m)
    return ceil(problem.rows_in_place / problem.groups)


def tiles_down(problem: Problem, rows: int, *, skips: bool = False) -> float:
    """The tiles of `rows` rows that hold rows of a group, in all groups. If kernels skip 64 rows of which
    none is a group's (`skips`), a tile counts less for them."""
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
    waiting = ONE_BUFFER if config.get("store_buffers") == 1 else 1.0
    return _Work(
        across=ceil(problem.n / columns),
        boxes=boxes,
        math=math,
        latency=LATENCY_CLOCKS / in_flight,
        power=instructions * tile_n / 2 * boxes * power,
        epilogue=EPILOGUE_CLOCKS + tile * 2 * outputs / EPILOGUE_BYTES_PER_CLOCK * waiting,
        exchange=EXCHANGE_CLOCKS + tile * 4 / EXCHANGE_BYTES_PER_CLOCK,
    )


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel. Terms that its tactics share are computed once."""
    if not has_tensor_core(record.arch, WGMMA):
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
        at_once = max(1, device.clusters_at_once(size))  # `misfit_device` rejects a cluster with 0
        down, across = (n, m) if config["swap_ab"] else (m, n)  # thread blocks of a cluster in D
        blocks = max(1.0, blocks_down(down) * ceil(work.across / across))
        full, rest = divmod(blocks, at_once)
        boxes = -(-work.boxes // (splits * stage_boxes)) * stage_boxes
        # Multicast: CTAs of a cluster in one row share A, in one column B.
        rows_a, rows_b = tile_m / n, tile_n / m
        weights = rows_a if config["swap_ab"] else rows_b
        loaded = (rows_a + rows_b + WEIGHTS_SHARE * weights) * BOX_BYTES

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
