"""A model of the block-scaled kernels for sm_90a, which decode on CUDA cores and multiply by wgmma.

A thread block owns one tile, and several are resident on an SM. Of a k tile, each warpgroup decodes 64 rows
of weights in registers, all decode the rows of activations once to shared memory, and wgmma multiplies what
was decoded before. Decoding, multiplying, the SM's loads and HBM disturb each other; the barrier that ends a
k tile is hidden by other resident thread blocks alone. A split k is summed through distributed shared memory.

Numbers that are not the hardware's own are fitted to the times of every tactic of 21 kernels for 212 problems
of linear layers (nvfp4, mxfp8, mxfp4; m from 1 to 1024) on one H200, L2 cold, launches back to back. Its pick
is 1.4 % slower than the best in geomean, 24 % at worst. A sample of the times is in tests/runtime/data.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.cost_work import (
    Work,
    cut,
    epilogue_bytes,
    loaded_bytes,
    memory_bytes,
    memory_bytes_per_clock,
    norm,
)
from tilewright.ops.blockscaled_gemm.problem import Kind, Problem
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord

# The hardware (NVIDIA's H100 white paper).
LANES = 128  # of an SM
WGMMA_M, WGMMA_K = 64, 16  # of one instruction on 16-bit elements; N columns take N / 2 clocks
SM_SHARED_BYTES = 228 * 1024
BLOCK_SHARED_BYTES = 1024  # that the system takes of each thread block's

# Fitted. Decoding, in instructions of one lane for each element:
WEIGHT_DECODE = {4: 1.74, 8: 2.03}  # by bits
ACTIVATION_DECODE = {4: 4.8, 8: 6.8}  # with the store to shared memory
ISSUE_SHARE = 0.556  # of the issue slots that decoding gets

# One k tile.
LEAST_WGMMA_CLOCKS = 4  # an instruction of few columns
TILE_CLOCKS = 346  # barriers and the wait for a stage; other resident thread blocks hide them
SM_FILL_BYTES_PER_CLOCK = 61  # an SM from L2, if few others load
L2_BYTES_PER_CLOCK = 6400  # L2 to all SMs; gemm's
OUTSIDE_BYTES_PER_CLOCK = 400  # zeros for rows that do not exist
HBM_SHARE = 0.95  # of the rated bandwidth
DISTURBANCE = 1.355  # the norm in which all add up: decoding disturbs loads more than gemm's wgmma does

# One launch.
LAUNCH_SECONDS = 1.94e-6
FIRST_STAGE_CLOCKS = 1280  # tensor maps, first loads from HBM, first activations decoded
EPILOGUE_CLOCKS = 200  # through shared memory
EPILOGUE_BYTES_PER_CLOCK = 64  # of D, an SM
CLUSTER_CLOCKS = 2220  # two barriers of a cluster, and its slowest thread block
EXCHANGE_BYTES_PER_CLOCK = 6.9  # sums read from another SM's shared memory


def peak(kind: Kind, device: DeviceProperties) -> float:
    """Operations a second: what is decoded is multiplied as 16-bit numbers."""
    return 2 * (2 * WGMMA_M * WGMMA_K) * device.sm_count * device.clock_hz


def resident(record: KernelRecord) -> int:
    """Thread blocks that an SM holds at once."""
    tile_m, tile_n, _ = record.config["tile"]
    most = 128 // tile_m if tile_n == 128 else {64: 4, 128: 2}.get(tile_m, 1)  # by registers
    held = SM_SHARED_BYTES // (record.facts["smem_bytes"] + BLOCK_SHARED_BYTES)
    return int(max(1, min(most, held)))


def _decode_clocks(record: KernelRecord, work: Work) -> float:
    """Of one k tile of one thread block, with the SM's lanes to itself."""
    tile_m, tile_n, tile_k = record.config["tile"]
    rows = min(tile_n, ceil(work.columns / work.tiles_n / 8) * 8)  # of activations: those that exist
    instructions = tile_m * WEIGHT_DECODE[work.row_bits] + rows * ACTIVATION_DECODE[work.column_bits]
    return float(instructions * tile_k / LANES / ISSUE_SHARE)


def _wgmma_clocks(record: KernelRecord) -> float:
    tile_m, tile_n, tile_k = record.config["tile"]
    return float(tile_m / WGMMA_M * tile_k / WGMMA_K * max(tile_n / 2, LEAST_WGMMA_CLOCKS))


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    tile = record.config["tile"]
    work, held = cut(record, problem), resident(record)
    decode, wgmma = _decode_clocks(record, work), _wgmma_clocks(record)
    loaded, outside = loaded_bytes(work, tile, record.facts["block"], 1, 1)
    zeros = outside / OUTSIDE_BYTES_PER_CLOCK
    moved = memory_bytes(work, problem, tile, device.sm_count * held, device.l2_bytes)
    hbm = moved / (work.tiles * work.k_tiles) / memory_bytes_per_clock(device, HBM_SHARE)
    epilogue = EPILOGUE_CLOCKS + epilogue_bytes(problem, tile) / EPILOGUE_BYTES_PER_CLOCK

    def needs(blocks: int, sms: int) -> dict[str, float]:
        """Clocks in which `blocks` thread blocks, spread evenly over `sms` SMs, do a k tile each."""
        beside = ceil(blocks / sms)  # on the busiest SM
        fill = loaded * max(beside / SM_FILL_BYTES_PER_CLOCK, blocks / L2_BYTES_PER_CLOCK)
        return {
            "math": beside * norm(2, decode, wgmma),
            "fill": fill + beside * zeros,
            "hbm": hbm * blocks,
        }

    def k_tile(blocks: int, sms: int) -> float:
        return norm(DISTURBANCE, *needs(blocks, sms).values()) + TILE_CLOCKS / ceil(blocks / sms)

    def weigh(tactic: Tactic) -> Estimate:
        splits = tactic.splits
        sms = device.clusters_at_once(splits) * splits
        blocks, k_tiles = work.tiles * splits, ceil(work.k_tiles / splits)
        waves, rest = divmod(blocks, sms * held)
        clocks = k_tiles * (waves * k_tile(sms * held, sms) + (k_tile(rest, sms) if rest else 0))
        used = needs(sms * held if waves else rest, sms)
        bound = max(used, key=used.__getitem__)
        # Each of a split tile's thread blocks stores its part of it.
        exchange = CLUSTER_CLOCKS + tile[0] * tile[1] * 4 * (splits - 1) / splits / EXCHANGE_BYTES_PER_CLOCK
        rounds = waves + (rest > 0)
        added = rounds * (FIRST_STAGE_CLOCKS + epilogue / splits + (exchange if splits > 1 else 0))
        main_loop, overhead = clocks / device.clock_hz, LAUNCH_SECONDS + added / device.clock_hz
        return Estimate(main_loop + overhead, rounds, bound, main_loop, overhead)

    return weigh
