"""A model of block-scaled kernels on sm_12x: RTX PRO and RTX 50 (12.0), DGX Spark (12.1).

Warps multiply with mma.sync, so that loading fragments and multiplying share the same instruction streams;
there are no clusters. Thread blocks are persistent, one to an SM.

We had no such GPU. The numbers rest on NVIDIA's white paper and on times that others published:

- FlashInfer pull request 2460: (32, 5120, 25600) in NVFP4 on an RTX PRO 6000 takes 124 us in tiles of
  128x128x128 and 69 us with stream-K.
- FlashInfer pull request 3026: m of 64, n of 5120, k of 640 to 16384, the same kernels, tuned, on a GPU of
  12.0 that the part of it that we read does not name; and on a second one, of 12.1 by its times.
- QuACK pull request 153: 8192x8192x8192 on an RTX 5090, 1343 TFLOP/s in NVFP4 and 650 in MXFP8.
- DeepGEMM pull request 324: 81 percent of the peak for FP4 on an RTX PRO 6000, 91 percent of the bandwidth.

Swapped operands, ping-pong, mixed types and quantised outputs have not been measured by anybody we know of.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.cost_work import (
    cut,
    epilogue_bytes,
    loaded_bytes,
    memory_bytes,
    memory_bytes_per_clock,
    norm,
    share,
)
from tilewright.ops.blockscaled_gemm.problem import Kind, Problem
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord
from tilewright.types import bits

# The hardware. Multiplications of an SM a clock, by the bits of the wider operand: the dense FP4 rate of the
# RTX Blackwell white paper over SMs and clock, and half of it (QuACK 153: block-scaled FP8 does have half, on
# GeForce too).
MULTIPLICATIONS = {4: 2048, 8: 1024}

# One k tile.
MATH_SHARE = 0.85  # of the tensor core's rate (QuACK 153: 0.80 of the peak in all)
TILE_CLOCKS = (
    130  # a stage's barriers (2460 and 3026, in tiles of 128x128x128: 9.5 to 12.7 clocks for each k)
)
FRAGMENT_CLOCKS = 1.6  # for each element of k, fragments that no mma hides (the same)
PINGPONG_SHARE = 0.5  # of these two clocks that show where two warpgroups take turns; a guess
SM_FILL_BYTES_PER_CLOCK = 64  # an SM from L2; a guess, between what mma.sync and TMA take elsewhere
L2_BYTES_PER_CLOCK = 24  # of each SM when all load; a guess that leaves QuACK 153's 8192 bound by math
OUTSIDE_BYTES_PER_CLOCK = 64  # zeros for rows that do not exist; as tcgen05's
MEMORY_SHARE = {(12, 1): 0.57}  # of the rated bandwidth (3026's second GPU, if it is one of 273 GB/s)
OTHER_MEMORY_SHARE = 0.85  # 2460; DeepGEMM 324 reaches 0.91
DISTURBANCE = 2  # the norm of math, fill and memory (2460, 3026)

# A whole launch.
LAUNCH_SECONDS = 2.2e-6  # 3026: k of 640 takes 7.4 us
FIRST_STAGE_CLOCKS = 1600  # tensor maps, first loads from memory
EPILOGUE_CLOCKS = 500  # latency of an epilogue apart from its bytes
EPILOGUE_BYTES_PER_CLOCK = 24  # of D, an SM; a guess

# Stream-K kernels, against the same tiles without: an H200's, and they agree with 2460 and 3026.
STREAM_K_SECONDS = 3.8e-6  # the workspace's clearing
STREAM_K_TILE_CLOCKS = 2500  # their scheduler does not overlap tiles
EXCHANGE_CLOCKS = 330  # a barrier in global memory between two parts of a tile
EXCHANGE_BYTES_PER_CLOCK = 45  # a part's sums, written and read


def peak(kind: Kind, device: DeviceProperties) -> float:
    """Operations a second."""
    return 2 * MULTIPLICATIONS[max(bits(kind.a), bits(kind.b))] * device.sm_count * device.clock_hz


def _math_clocks(record: KernelRecord, width: int) -> float:
    """Of one k tile: mma, and what of loading fragments it does not hide."""
    tile_m, tile_n, tile_k = record.config["tile"]
    hidden_not = TILE_CLOCKS + FRAGMENT_CLOCKS * tile_k
    if record.config["schedule"] == "pingpong":
        hidden_not *= PINGPONG_SHARE
    return float(tile_m * tile_n * tile_k / MULTIPLICATIONS[width] / MATH_SHARE + hidden_not)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    tile = record.config["tile"]
    stream_k = record.config["scheduler"] == "stream_k"
    work, sms = cut(record, problem), device.sm_count
    math = _math_clocks(record, max(work.row_bits, work.column_bits))
    loaded, outside = loaded_bytes(work, tile, record.facts["block"], 1, 1)
    moved = memory_bytes(work, problem, tile, sms, device.l2_bytes)
    reached = MEMORY_SHARE.get(device.capability, OTHER_MEMORY_SHARE)
    memory = moved / (work.tiles * work.k_tiles) / memory_bytes_per_clock(device, reached)
    epilogue = EPILOGUE_CLOCKS + epilogue_bytes(problem, tile) / EPILOGUE_BYTES_PER_CLOCK
    exchange = EXCHANGE_CLOCKS + 2 * tile[0] * tile[1] * 4 / EXCHANGE_BYTES_PER_CLOCK
    seconds = LAUNCH_SECONDS + (STREAM_K_SECONDS if stream_k else 0)
    tile_overhead = STREAM_K_TILE_CLOCKS if stream_k else 0

    def needs(busy: int) -> tuple[float, float, float]:
        """Clocks of one k tile: math, the SM's loads and memory while `busy` SMs work."""
        fill = loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / sms / L2_BYTES_PER_CLOCK)
        return math, fill + outside / OUTSIDE_BYTES_PER_CLOCK, memory * busy

    def weigh(tactic: Tactic) -> Estimate:
        part = share(tactic, work, sms)
        clocks = part.full_waves * part.full_k_tiles * norm(DISTURBANCE, *needs(sms))
        if part.busy:
            clocks += part.last_k_tiles * norm(DISTURBANCE, *needs(part.busy))
        used = needs(sms if part.full_waves else part.busy)
        _, bound = max(zip(used, ("math", "fill", "hbm"), strict=True))
        # Ping-pong stores a tile while the other warpgroup computes; only the last store shows.
        shown = 1 if record.config["schedule"] == "pingpong" else part.epilogues
        added = FIRST_STAGE_CLOCKS + shown * epilogue + part.epilogues * tile_overhead
        # A deterministic reduction goes from part to part: each reads and writes the sums so far.
        added += (part.parts - 1) * exchange
        main_loop, overhead = clocks / device.clock_hz, seconds + added / device.clock_hz
        return Estimate(main_loop + overhead, ceil(part.epilogues), bound, main_loop, overhead)

    return weigh
