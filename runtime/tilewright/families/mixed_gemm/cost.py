"""A model of how long a tactic of `mixed_gemm` takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. A *piece* is 64 rows of W by 64 of k. It takes an SM issue slots
to decode and clocks of the tensor cores to multiply, which overlap in part, as do its loads; with few warps,
a warp's latencies count instead. A launch can be faster neither than HBM nor than the tensor cores. What does
not overlap is added: the launch, the epilogue, and the sums that several thread blocks, or groups of
warpgroups, add up.

Numbers that are not the hardware's own are fitted to 929 times on an H200 (L2 cold, launches back to back; 30
problems of 1 to 4,096 rows with many tactics each, and 57 random ones with one): the model's first tactic is
2.4 % behind the fastest in geomean of the 30, 8.8 % at worst, and estimates are off by 5 % in the mean.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from tilewright import weight_formats
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_gemm import terms
from tilewright.families.mixed_gemm.problem import FORMATS, PackedProblem, Problem
from tilewright.families.mixed_gemm.terms import UNIT_K, Terms
from tilewright.selection.estimates import Estimate

CLOCK_SHARE = 0.886  # share of the highest clock at which clocks count, as for gemm's lean kernels
PIECE = 64  # rows of W, and elements of k
STEPS = 4  # wgmmas of a piece

DECODE_CLOCKS = {
    "int4": 120,
    "int4_zp": 124,
    "mxfp4": 160,
    "nvfp4": 158,
    "int8": 120,
    "e4m3": 120,
}  # clocks that a piece takes to decode
EARLY_SHARE = {"int4": 0.76, "mxfp4": 0.88, "nvfp4": 0.91}
"""The share of DECODE_CLOCKS that a piece takes with a schedule other than at_will, which has fewer
instructions: fitted to 166 products on an H200 (benchmarks/results/packed_schedules.md)."""
SCALE_BYTES = 4  # of a row in a piece, about


class Numbers(NamedTuple):
    """The fitted numbers of a family's kernels."""

    wgmma_clocks: float  # clocks of a wgmma beside those of its columns
    overlap_piece: float  # p of the p-norm that combines decoding and multiplying
    latency: float  # clocks that a warp takes to decode a piece, over DECODE_CLOCKS
    box_clocks: float  # clocks of a stage's barriers
    l2_bytes_per_clock: float  # bytes that an SM gets
    hbm_share: float  # share of the rated bandwidth that is reached
    epilogue_bytes_per_clock: float  # bytes of D that a warpgroup stores
    overlap: float  # p of the p-norms that combine a piece's work and its loads, and the main loop and HBM
    schedules: bool  # whether EARLY_SHARE counts


NUMBERS = Numbers(
    wgmma_clocks=3.3, overlap_piece=1.9, latency=1.9, box_clocks=68, l2_bytes_per_clock=425, hbm_share=0.998,
    epilogue_bytes_per_clock=300, overlap=2.56, schedules=True,
)  # fmt: skip
START_CLOCKS = 4536  # clocks of launch, the first stage's loads, and the last store
CLUSTER_CLOCKS = 402  # clocks of the barriers of a cluster that shares activations


class Sums(NamedTuple):
    """Clocks of a tile whose sums go through shared memory, because thread blocks or groups of warpgroups
    divide its k."""

    barriers: float
    element: float  # for each element of the tile
    split: float  # for each thread block that divides k
    group: float  # for each group of warpgroups after the first
    refill: float  # until stages are loaded again, which the sums took the place of


SUMS = Sums(barriers=200, element=0.206, split=418, group=996, refill=3175)


def norm(*values: float, power: float = 4) -> float:
    """The p-norm of times that overlap."""
    return float(sum(value**power for value in values) ** (1 / power))


def early_share(record: KernelRecord) -> float:
    """The share of the decoder's clocks that a kernel's schedule leaves."""
    format, _ = FORMATS[record.config["weight_format"]]
    return 1.0 if record.config["schedule"] == "at_will" else EARLY_SHARE.get(format, 1.0)


class TileModel:
    """The tiles of a kernel for a problem with packed weights, in clocks."""

    def __init__(
        self, record: KernelRecord, problem: PackedProblem, device: DeviceProperties, numbers: Numbers
    ) -> None:
        self.numbers = numbers
        self.tile_m, self.tile_n, tile_k = record.config["tile"]
        self.pieces = tile_k // PIECE
        self.down, self.rows = ceil(problem.n / self.tile_m), min(self.tile_n, problem.m)
        self.k_tiles = ceil(problem.k / 128) * (128 // tile_k)
        self.clock = device.clock_hz * CLOCK_SHARE
        self.hbm = problem.bytes / (device.memory_bandwidth * numbers.hbm_share)
        warpgroups = record.facts["threads"] // 128 - 1
        format, _ = FORMATS[problem.weight_format]
        self.bits = weight_formats.FORMATS[format].bits
        decoding = DECODE_CLOCKS[format] * (early_share(record) if numbers.schedules else 1.0)
        wgmmas = STEPS * (self.tile_n / 2 + numbers.wgmma_clocks)
        power = numbers.overlap_piece
        piece = (decoding**power + wgmmas**power) ** (1 / power)
        latency = (numbers.latency * decoding + wgmmas) / warpgroups
        self.math = self.tile_m // PIECE * max(piece, latency)
        self.epilogue = self.tile_m * self.rows * 2 / numbers.epilogue_bytes_per_clock / warpgroups

    def of_k_tile(self, cluster: int) -> float:
        """The clocks of one k tile, whose activations `cluster` thread blocks share."""
        loaded = self.tile_m * (PIECE * self.bits // 8 + SCALE_BYTES) + self.rows * 2 * PIECE / cluster
        of_piece = norm(self.math, loaded / self.numbers.l2_bytes_per_clock, power=self.numbers.overlap)
        return float(self.pieces * (of_piece + self.numbers.box_clocks / self.pieces))

    def estimate(self, waves: int, of_tile: float, added: float) -> Estimate:
        """The time of `waves` of tiles, and of the clocks that overlap with nothing."""
        bounds = {"hbm": self.hbm, "math": waves * of_tile / self.clock}
        main_loop, overhead = norm(*bounds.values(), power=self.numbers.overlap), added / self.clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)


class Wgmma(terms.Kernel):
    """A kernel of the mainloop `wgmma` on a problem."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.model = TileModel(record, problem, device, NUMBERS)
        self.across, self.groups = ceil(problem.m / self.model.tile_n), record.config["k_groups"]

    def terms(self, tactic: Tactic) -> Terms:
        model = self.model
        cluster, splits = max(extents(tactic.cluster)[0], 1), tactic.splits
        at_once = max(1, self.device.clusters_at_once(cluster * splits))
        blocks = ceil(model.down / cluster) * self.across
        waves, k_tiles = ceil(blocks / at_once), ceil(model.k_tiles / splits)
        of_tile = k_tiles * model.of_k_tile(cluster) + (model.epilogue if waves > 1 else 0.0)
        added = START_CLOCKS + model.epilogue + (CLUSTER_CLOCKS if cluster > 1 else 0)
        if splits > 1 or self.groups > 1:
            of_sums = SUMS.barriers + SUMS.element * model.tile_m * model.rows
            of_sums += SUMS.split * splits + SUMS.group * (self.groups - 1)
            added += waves * of_sums + (waves - 1) * SUMS.refill
        size, math = cluster * splits, waves * of_tile / model.clock
        units = ceil(k_tiles * model.pieces * PIECE / UNIT_K)
        main_loop = norm(model.hbm, math, power=NUMBERS.overlap)
        return Terms(
            cluster, splits, blocks * size, at_once * size, units, model.hbm, math, main_loop,
            added / model.clock,
        )  # fmt: skip
