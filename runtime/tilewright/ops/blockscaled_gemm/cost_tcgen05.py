"""A model of block-scaled kernels on tcgen05: sm_100 (B200), sm_103 (B300: ultra kernels), sm_110 (Thor).

Thread blocks are persistent, one to an SM. A k tile passes through a chain (a stage arrives, MMAs read it
from shared memory) and through L2 and memory, which disturb one another. What a launch multiplies cannot
exceed the rate that power sustains, and traffic to memory takes its part of that.

We had no such GPU. The numbers rest on NVIDIA's data sheets and on times that others published:

- FlashInfer pull request 2303: NVFP4 on a B300, n of 8192, k of 8192 and 28672, m of 8 to 32768, before and
  after the ultra kernels. Its loop does not seem to clear L2: n and k of 8192 take 8.6 us for m of
  8, where the weights alone take 5 from memory. We take these as a warm L2's times.
- FlashInfer pull request 2540: NVFP4, CUTLASS's kernels among others, m of 1 to 64, L2 cleared; 1979: one
  larger problem, on a B200.
- SemiAnalysis, "Dissecting Nvidia Blackwell" (2026): MMAs with N below 128 wait for shared memory, which
  gives 128 bytes a clock; 2SM halves what an SM reads of B.

tests/runtime/test_blockscaled_cost.py holds the model to them. MXFP8, MXFP4, mixed types, quantised outputs
and all of Thor have only the data sheets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.cost_work import (
    Share,
    Work,
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
from tilewright.ops.common.fitting import cluster_unit
from tilewright.ops.common.tactics import Tactic, extents
from tilewright.table import KernelRecord
from tilewright.types import bits

# The hardware. Multiplications of an SM a clock, by the bits of the wider operand: dense peaks of the data
# sheets over SMs and clock, 4 and 2 times BF16's 4096. FP4 beside FP8 is multiplied, and lies in shared
# memory, as eight bits.
MULTIPLICATIONS = {4: 16384, 8: 8192}
ULTRA_SPEEDUP = 1.5  # of sm_103's MMAs of K 96 over those of K 64: B300's 15 PFLOP/s over B200's 10
SMEM_BYTES_PER_CLOCK = 128  # both operands of an MMA are read from shared memory (SemiAnalysis)
STAGE_BYTES = 128  # of k that a stage of the pipeline holds at most: an ultra tile takes three

# One k tile.
STAGE_CLOCKS = 100  # a stage's barriers, which no MMA hides (2540: 0.75 ns for each k where n is below 1300)
NO_PREFETCH_CLOCKS = 20  # more, in an ultra kernel that does not prefetch to L2; a guess that breaks ties
CLUSTER_STAGE_CLOCKS = 4  # more for each other thread block of a cluster, which must be ready; a guess
SM_FILL_BYTES_PER_CLOCK = 96  # an SM from L2, if few others load; an H200's
L2_BYTES_PER_CLOCK = 60  # of each SM when all load: what makes 2303's tiles of 128x256 better than 128x128
OUTSIDE_BYTES_PER_CLOCK = 64  # zeros for rows that do not exist (2540: m of 1 takes no longer than m of 64)
MEMORY_SHARE = 0.9  # of the rated bandwidth (2540: n of 9216); an H200 reaches 0.92
DISTURBANCE = 1.5  # the norm of chain and memory (2540: nearer to their sum; 2303, m of 512: less)

# A whole launch. Power: 2303 reaches 0.66 of the peak with sm_100's kernels and 0.47 with ultra's where k is
# 8192, 6 to 10 percent less where k is 28672 and operands are read again and again; BF16 there, 0.69.
SUSTAINED_SHARE = 0.75  # of the peak, if nothing came from memory
ULTRA_SUSTAINED_SHARE = 0.55
MEMORY_POWER = 0.3  # of its own time, which traffic to memory takes from MMAs (2303, fitted)
SUSTAINED_NORM = 8  # how sharply power takes over; an H200's
LAUNCH_SECONDS = 2.3e-6  # 2540: k of 256 takes 4.5 us with first stage and epilogue
ULTRA_SECONDS = 1.4e-6  # more: 2303's ultra kernels gain with k of 28672 for m of 8 and not with k of 8192
FIRST_STAGE_CLOCKS = 1600  # tensor maps, tensor memory, first loads from memory (2540)
EPILOGUE_CLOCKS = 600  # latency of an epilogue apart from its bytes
EPILOGUE_BYTES_PER_CLOCK = {"tma": 32, "direct_256": 32, "direct": 16}  # of D, an SM; guesses
# A tile of 256 columns leaves no tensor memory for the next one's sums: part of its epilogue shows.
WIDE_COLUMNS, WIDE_SHOWN = 256, 0.4
CLUSTER_CLOCKS = 200  # barriers of a cluster; an H200's

# Stream-K kernels, against the same tiles without: all of it an H200's, as nobody published any.
STREAM_K_SECONDS = 3.8e-6
STREAM_K_TILE_CLOCKS = 2500
EXCHANGE_CLOCKS = 330
EXCHANGE_BYTES_PER_CLOCK = 45


class _Kernel(NamedTuple):
    """What the tactics of a kernel share for one problem, in clocks where nothing else is said."""

    chain: float  # of one k tile: its MMAs and its stages' barriers
    stages: int  # of one k tile
    power: float  # of one k tile's MMAs, at the rate that power sustains
    epilogue: float
    shown: float  # the share of every epilogue that MMAs do not hide
    added: float  # once a launch
    seconds: float  # once a launch
    tile_overhead: float
    exchange: float


def peak(kind: Kind, device: DeviceProperties) -> float:
    """Operations a second; on sm_103 of its own MMAs, which multiply FP4 alone."""
    width = max(bits(kind.a), bits(kind.b))
    speedup = ULTRA_SPEEDUP if device.capability == (10, 3) and width == 4 else 1
    return 2 * MULTIPLICATIONS[width] * speedup * device.sm_count * device.clock_hz


def _bits(work: Work) -> int:
    return max(work.row_bits, work.column_bits)


def is_ultra(record: KernelRecord) -> bool:
    """Whether the kernel multiplies with sm_103's own MMAs: its k tile is one that no other has."""
    return record.arch.startswith("sm_103") and record.config["tile"][2] == 768


def _mma_clocks(record: KernelRecord, work: Work) -> tuple[float, float]:
    """Of one k tile: by the tensor core alone, and with its reading of shared memory."""
    tile_m, tile_n, tile_k = record.config["tile"]
    rate = MULTIPLICATIONS[_bits(work)] * (ULTRA_SPEEDUP if is_ultra(record) else 1)
    math = tile_m * tile_n * tile_k / rate
    columns = tile_n / 2 if record.config["schedule"] == "2sm" else tile_n  # that this SM holds
    smem = (tile_m + columns) * tile_k * _bits(work) / 8 / SMEM_BYTES_PER_CLOCK
    return math, max(math, smem)


def _kernel(record: KernelRecord, problem: Problem, work: Work) -> _Kernel:
    config, ultra = record.config, is_ultra(record)
    tile = config["tile"]
    math, clocks = _mma_clocks(record, work)
    stages = max(1, tile[2] * _bits(work) // 8 // STAGE_BYTES)
    stage = STAGE_CLOCKS + (NO_PREFETCH_CLOCKS if ultra and config["prefetch"] == "none" else 0)
    stream_k = config["scheduler"] == "stream_k"
    stored = epilogue_bytes(problem, tile) / EPILOGUE_BYTES_PER_CLOCK[config["store"]]
    return _Kernel(
        chain=clocks + stages * stage,
        stages=stages,
        power=math / (ULTRA_SUSTAINED_SHARE if ultra else SUSTAINED_SHARE),
        epilogue=EPILOGUE_CLOCKS + stored,
        shown=WIDE_SHOWN if tile[1] >= WIDE_COLUMNS else 0.0,
        added=FIRST_STAGE_CLOCKS,
        seconds=LAUNCH_SECONDS + ULTRA_SECONDS * ultra + STREAM_K_SECONDS * stream_k,
        tile_overhead=STREAM_K_TILE_CLOCKS if stream_k else 0,
        exchange=EXCHANGE_CLOCKS + 2 * tile[0] * tile[1] * 4 / EXCHANGE_BYTES_PER_CLOCK,
    )


class _Iteration(NamedTuple):
    """What one k tile of one tile needs in a cluster of some shape."""

    work: Work
    chain: float  # clocks
    loaded: float  # bytes from L2
    outside: float  # clocks in which TMA writes zeros
    memory: float  # clocks of all of memory
    power: float  # clocks
    sms: int  # of the GPU

    def needs(self, busy: int) -> tuple[float, float, float]:
        """Clocks of the chain, of the SM's loads and of memory while `busy` SMs work."""
        fill = self.loaded * max(1 / SM_FILL_BYTES_PER_CLOCK, busy / self.sms / L2_BYTES_PER_CLOCK)
        return self.chain, fill + self.outside, self.memory * busy

    def clocks(self, busy: int) -> float:
        chain, fill, memory = self.needs(busy)
        # A stage is filled while others are multiplied: the slower of the two counts.
        return norm(DISTURBANCE, max(chain, fill), memory)

    def sustained(self, busy: int) -> float:
        return self.power + MEMORY_POWER * self.memory * busy


def _iteration(
    record: KernelRecord, problem: Problem, device: DeviceProperties, kernel: _Kernel, shape: tuple[int, int]
) -> _Iteration:
    tile = record.config["tile"]
    work = cut(record, problem).clustered(*shape)
    loaded, outside = loaded_bytes(work, tile, record.facts["block"], *shape)
    moved = memory_bytes(work, problem, tile, device.sm_count, device.l2_bytes)
    return _Iteration(
        work=work,
        chain=kernel.chain + kernel.stages * CLUSTER_STAGE_CLOCKS * (shape[0] * shape[1] - 1),
        loaded=loaded,
        outside=outside / OUTSIDE_BYTES_PER_CLOCK,
        memory=moved / (work.tiles * work.k_tiles) / memory_bytes_per_clock(device, MEMORY_SHARE),
        power=kernel.power,
        sms=device.sm_count,
    )


def _main_loop(iteration: _Iteration, part: Share, sms: int) -> tuple[float, str]:
    """Clocks of all k tiles of the busiest SM, and what bounds them."""
    whole = part.full_waves * part.full_k_tiles
    clocks, power = whole * iteration.clocks(sms), whole * iteration.sustained(sms)
    if part.busy:
        clocks += part.last_k_tiles * iteration.clocks(part.busy)
        power += part.last_k_tiles * iteration.sustained(part.busy)
    chain, fill, memory = iteration.needs(sms if part.full_waves else part.busy)
    _, bound = max((chain, "math"), (fill, "fill"), (memory, "hbm"))
    return norm(SUSTAINED_NORM, clocks, power), "power" if power > clocks else bound


def _shape(record: KernelRecord, tactic: Tactic) -> tuple[int, int]:
    """Thread blocks of a cluster."""
    if tactic.cluster:
        return extents(tactic.cluster)
    own = record.config["cluster"]
    shape = cluster_unit(record) if own == "dynamic" else own
    return shape[0], shape[1]


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    kernel = _kernel(record, problem, cut(record, problem))
    # A fallback shape fills what whole clusters leave of the GPU; pairs of SMs are never parted.
    unit = 2 if record.config["schedule"] == "2sm" else 1
    sms = device.sm_count // unit * unit

    @functools.cache
    def iteration_of(shape: tuple[int, int]) -> _Iteration:
        return _iteration(record, problem, device, kernel, shape)

    def weigh(tactic: Tactic) -> Estimate:
        shape = _shape(record, tactic)
        iteration = iteration_of(shape)
        part = share(tactic, iteration.work, sms)
        clocks, bound = _main_loop(iteration, part, sms)
        shown = 1 + (ceil(part.epilogues) - 1) * kernel.shown
        added = kernel.added + shown * kernel.epilogue + part.epilogues * kernel.tile_overhead
        # A deterministic reduction goes from part to part: each reads and writes the sums so far.
        added += (part.parts - 1) * kernel.exchange + (CLUSTER_CLOCKS if shape != (1, 1) else 0)
        main_loop, overhead = clocks / device.clock_hz, kernel.seconds + added / device.clock_hz
        return Estimate(main_loop + overhead, ceil(part.epilogues), bound, main_loop, overhead)

    return weigh
