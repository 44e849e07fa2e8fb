"""A model of the block-scaled kernels for sm_90a, which decode on CUDA cores and multiply by wgmma.

A thread block computes one tile, and several thread blocks share an SM. For a k tile, each warpgroup decodes
64 rows of weights in registers, all warpgroups together decode the rows of activations to shared memory, and
wgmma multiplies the previous k tile. Decoding, multiplying, the SM's loads and HBM disturb each other. Only
other thread blocks on the SM hide the barrier that ends a k tile. A split k is added through distributed
shared memory.

Numbers that are not the hardware's own are fitted to the times of every tactic of 21 kernels for 212 problems
of linear layers (nvfp4, mxfp8, mxfp4; m from 1 to 1024) on one H200, with a cold L2 and back-to-back
launches. The model's first tactic is 1.4 % slower than the fastest in geomean, 24 % at worst. A sample of the
times is in tests/runtime/data.
"""

from __future__ import annotations

from math import ceil
from typing import ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.occupancy import resident
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.persistent import SUM_BYTES, TileModel, norm


class Hopper(TileModel):
    """A kernel of sm_90a on a problem."""

    # The hardware (NVIDIA's H100 white paper).
    LANES = 128  # instructions of an SM in a clock
    MULTIPLICATIONS = dict.fromkeys((4, 8), WGMMA.multiplications[16])  # operands are decoded to 16 bits

    # Fitted. Instructions of one lane to decode an element, by its bits.
    WEIGHT_DECODE: ClassVar = {4: 1.74, 8: 2.03}
    ACTIVATION_DECODE: ClassVar = {4: 4.8, 8: 6.8}  # with the store to shared memory
    ISSUE_SHARE = 0.556  # share of the issue slots that decoding gets

    # One k tile.
    LEAST_COLUMNS = 8  # the columns of the narrowest wgmma
    TILE_CLOCKS = 346  # barriers and the wait for a stage; other thread blocks on the SM hide them
    SM_FILL_BYTES_PER_CLOCK = 61  # an SM from L2, if few others load
    L2_BYTES_PER_CLOCK = 6400  # L2 to all SMs; gemm's
    OUTSIDE_BYTES_PER_CLOCK = 400
    MEMORY_SHARE = 0.95
    DISTURBANCE = 1.355  # p of the p-norm of all terms: decoding disturbs loads more than gemm's wgmma does

    # One launch.
    LAUNCH_SECONDS = 1.94e-6
    FIRST_STAGE_CLOCKS = 1280  # tensor maps, first loads from HBM, first activations decoded
    EPILOGUE_CLOCKS = 200  # the latency of an epilogue through shared memory
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 64}
    CLUSTER_CLOCKS = 2220  # two barriers of a cluster, which wait for its slowest thread block
    EXCHANGE_BYTES_PER_CLOCK = 6.9  # bytes of sums per clock from another SM's shared memory

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        down, across = self.tiles()
        self.all_tiles = down * across * problem.batch
        self.held = resident(self.config["tile"], record.facts["smem_bytes"])
        rows = min(self.tile_n, ceil(self.columns / across / 8) * 8)  # rows of activations within the matrix
        decoded = self.tile_m * self.WEIGHT_DECODE[self.row_bits]
        decoded += rows * self.ACTIVATION_DECODE[self.column_bits]
        self.decode = decoded * self.tile_k / self.LANES / self.ISSUE_SHARE
        multiplied = self.tile_m * max(self.tile_n, self.LEAST_COLUMNS) * self.tile_k
        self.wgmma = multiplied / self.MULTIPLICATIONS[self.width]
        self.bytes, self.zeros = self.loaded()
        self.hbm = self.memory_clocks(self.all_tiles, device.sm_count * self.held)
        self.sums = self.tile_m * self.tile_n * SUM_BYTES

    def needs(self, blocks: int, sms: int) -> dict[str, float]:
        """Clocks in which `blocks` thread blocks, spread evenly over `sms` SMs, do a k tile each."""
        beside = ceil(blocks / sms)  # on the busiest SM
        fill = self.bytes * max(beside / self.SM_FILL_BYTES_PER_CLOCK, blocks / self.L2_BYTES_PER_CLOCK)
        return {
            "math": beside * norm(2, self.decode, self.wgmma),
            "fill": fill + beside * self.zeros,
            "hbm": self.hbm * blocks,
        }

    def k_tile(self, blocks: int, sms: int) -> float:
        """Clocks of these needs together, and of the barriers of a k tile."""
        together = norm(self.DISTURBANCE, *self.needs(blocks, sms).values())
        return together + self.TILE_CLOCKS / ceil(blocks / sms)

    def weigh(self, tactic: Tactic) -> Estimate:
        """Seconds that one launch takes, from the first block's start to the last store."""
        splits, clock = tactic.splits, self.device.clock_hz
        # If there is no SM for each thread block of a cluster, its thread blocks share SMs.
        sms = max(1, self.device.clusters_at_once(splits)) * splits
        blocks, k_tiles = self.all_tiles * splits, ceil(self.k_tiles / splits)
        waves, rest = divmod(blocks, sms * self.held)
        clocks = k_tiles * waves * self.k_tile(sms * self.held, sms)
        if rest:
            clocks += k_tiles * self.k_tile(rest, sms)
        used = self.needs(sms * self.held if waves else rest, sms)
        bound = max(used, key=used.__getitem__)
        # Each thread block of a split tile stores a part of the tile.
        exchanged = self.sums * (splits - 1) / splits / self.EXCHANGE_BYTES_PER_CLOCK
        exchange = self.CLUSTER_CLOCKS + exchanged if splits > 1 else 0
        rounds = waves + (rest > 0)
        added = rounds * (self.FIRST_STAGE_CLOCKS + self.epilogue / splits + exchange)
        main_loop, overhead = clocks / clock, self.LAUNCH_SECONDS + added / clock
        return Estimate(main_loop + overhead, rounds, bound, main_loop, overhead)
