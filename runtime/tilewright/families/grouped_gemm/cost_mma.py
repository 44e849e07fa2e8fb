"""A model of the mma.sync kernels on sm_12x: RTX PRO and RTX 50 (12.0), DGX Spark (12.1).

One persistent thread block runs on each SM and works through tiles in waves, without clusters. A k tile takes
about as long as the slowest of the tensor cores, the SM's loads and memory. A launch can be faster neither
than memory nor than the rate of multiplications that power sustains. The number of tiles is that of Hopper's
model (`cost.tiles_down`), for groups with the expected number of rows, give or take 30 %: the published times
are so.

Nobody has timed these kernels on such a GPU. The numbers rest on NVIDIA's white papers, and on times of
DeepGEMM's kernels on an RTX PRO 6000 (DeepGEMM pull request 324): FP8 with scale factors takes 619 to 731
TFLOP/s, contiguous groups 728, masked ones 633, groups of k 551; BF16 374. Its scale factors are powers of
two, which the instruction multiplies by; here F32 additions do, which is what PROMOTION stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import MMA_SYNC
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm.cost import tiles_down
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate

LANES = 128  # F32 multiplications and additions of an SM in a clock
# Multiplications of an SM in a clock: BF16 has half of FP8's rate (503.8 TFLOP/s, dense, with F32 sums; RTX
# Blackwell PRO white paper). GeForce has half of both (RTX Blackwell white paper).
MULTIPLICATIONS = {**MMA_SYNC.multiplications, 16: MMA_SYNC.multiplications[8] // 2}
GEFORCE_SHARE = 0.5

MATH_SHARE = {16: 0.95, 8: 0.85, 4: 0.85}  # share of the rate that a loop reaches (324; as for gemm)
SUSTAINED_SHARE = {16: 0.755, 8: 0.808, 4: 0.72}  # share of the peak that power sustains (324; as for gemm)
# Share by which a k tile takes longer where two stages are all that fit: 324's FP8 kernels were 4.5 to 6.1 %
# faster with four stages of 64 of k than with two of 128 (624 and 591, 699 and 669, 731 and 689 TFLOP/s). Its
# groups of k had two.
TWO_STAGES = 1.06
STAGE_CLOCKS = 60  # of a stage's barriers; a guess, as for gemm
# Instructions of promotion for a sum and 128 of k: one, and one that multiplies the factors of a row and a
# column where both have their own. They are issued beside mma.sync, and share a scheduler with it.
PROMOTION = {"128x128": 1.0, "1x128": 2.0}
SM_FILL_BYTES_PER_CLOCK = 64  # as for block-scaled kernels of sm_12x, and so the next one
L2_SM_BYTES_PER_CLOCK = 24
DISTURBANCE = 4  # of the norm that adds the tensor cores', the loads' and memory's clocks; as for gemm
SUSTAINED_NORM = 8  # of the norm that adds these and the clocks that power allows; as for gemm
# Share of the rated bandwidth (gemm/cost_mma.py says whose).
MEMORY_SHARES = {(12, 0): 0.85, (12, 1): 0.57}
LAUNCH_SECONDS = 2.2e-6  # FlashInfer pull request 3026
FIRST_STAGE_CLOCKS = 1600
EPILOGUE_CLOCKS = 500
EPILOGUE_BYTES_PER_CLOCK = 24  # a guess, as for block-scaled kernels
SPREAD = (0.7, 0.85, 1.0, 1.15, 1.3)  # the rows of groups, as shares of the expected number
MAPS_SECONDS = 2.2e-6  # of the kernel that writes the tensor maps of groups of k; as a launch


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of one kernel."""
    estimate = _estimate(record, problem, device)
    return lambda tactic: estimate


def _estimate(record: KernelRecord, problem: Problem, device: DeviceProperties) -> Estimate:
    config = record.config
    width = max(bits(problem.a), bits(problem.b))  # FP4 beside FP8 is multiplied as FP8 is
    tile_m, tile_n, tile_k = config["tile"]
    rows, columns = (tile_n, tile_m) if config["swap_ab"] else (tile_m, tile_n)  # of D
    tiles = max(1.0, tiles_down(problem, rows, shares=SPREAD) * ceil(problem.n / columns))
    k = problem.k / problem.groups if problem.grouping == "k_sizes" else problem.k
    k_tiles = ceil(k / tile_k)
    rate = GEFORCE_SHARE if "GeForce" in device.name else 1.0
    multiplied = tile_m * tile_n * tile_k / MULTIPLICATIONS[width] / rate  # clocks of a k tile
    math = multiplied / MATH_SHARE[width] + STAGE_CLOCKS
    math *= TWO_STAGES if record.facts["stages"] == 2 else 1.0
    math += PROMOTION.get(problem.scales, 0.0) * tile_m * tile_n * tile_k / 128 / LANES
    loaded = (rows * bits(problem.a) + columns * bits(problem.b)) * tile_k / 8
    bandwidth = device.memory_bandwidth * MEMORY_SHARES.get(device.capability, MEMORY_SHARES[12, 0])
    memory = problem.bytes * device.clock_hz / bandwidth / (tiles * k_tiles)  # clocks of a k tile, of all SMs

    def k_tile(busy: float) -> tuple[float, float, float]:
        fill = loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / (L2_SM_BYTES_PER_CLOCK * device.sm_count))
        return math, fill, memory * busy

    full, rest = divmod(tiles, device.sm_count)
    loop = 0.0
    for waves, busy in ((full, float(device.sm_count)), (float(rest > 0), rest)):
        if waves:
            loop += waves * k_tiles * sum(need**DISTURBANCE for need in k_tile(busy)) ** (1 / DISTURBANCE)
    power = tiles * k_tiles / device.sm_count * multiplied / min(1.0, SUSTAINED_SHARE[width] / rate)
    clocks = (loop**SUSTAINED_NORM + power**SUSTAINED_NORM) ** (1 / SUSTAINED_NORM)
    waves = ceil(tiles / device.sm_count)
    stored = rows * columns * bits(problem.d) / 8
    added = FIRST_STAGE_CLOCKS + waves * (EPILOGUE_CLOCKS + stored / EPILOGUE_BYTES_PER_CLOCK)
    needs = k_tile(device.sm_count if full else rest)
    bound = "power" if power > loop else ("math", "fill", "hbm")[needs.index(max(needs))]
    overhead = LAUNCH_SECONDS + added / device.clock_hz
    if problem.grouping == "k_sizes" and problem.scales != "none":
        overhead += MAPS_SECONDS
    if problem.c:
        # Nothing hides that C comes from memory: 324's groups of k are 0.8 times as quick as the rest.
        matrices = problem.groups if problem.grouping == "k_sizes" else 1
        overhead += matrices * problem.rows * problem.n * bits(problem.d) / 8 / bandwidth
    main_loop = clocks / device.clock_hz
    return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)
