"""A model of how long a tactic of `mixed_fp8_gemm` takes on sm_90a: to rank tactics, not to predict a clock.

One persistent thread block runs on each SM. A *unit* is 64 rows of W by 128 of k, which a warpgroup decodes,
multiplies and promotes. The products of two warpgroups follow one another; decoding, and what waits for it,
is added, because both warpgroups do it at the same time. Where another warpgroup decodes ahead, less is
added, and a unit takes at least the time in which it is decoded. A launch can be faster neither than HBM nor
than the tensor cores. What does not overlap is added: the launch, the epilogue, and the sums that several
thread blocks add up.

Numbers that are not the hardware's own are fitted to 683 times on an H200 (L2 cold, launches back to back; 56
problems, layers and random, 1 to 7,728 rows, INT4 in groups of 128 and MXFP4): estimates are off by 4 %, and
the model's first tactic is 0.7 % behind the fastest in geomean of the problems, 14 % at worst. Then each tile
of a thread block, and not the last alone, got the clocks of its split sums: on 19 other problems, 7 of them
with `fast_accum`, the first tactic is 1.2 % behind instead of 3.7 %. Numbers for units were fitted anew to
249 random problems of 65 to 8,192 rows: the first tactic is 1.4 % behind for INT4, 0.5 % for MXFP4 and 0.9 %
with `fast_accum`. INT4's numbers were fitted once more, with kernels that multiply by parts in turn, to 120
problems of 256 to 8,192 rows: the first tactic is 0.4 % behind, 6 % at worst, and 1.6 % for 8 problems of
experts. With kernels whose thread blocks have equal work, numbers of INT4 and of `fast_accum` were fitted to
67 problems: on 67 others the first tactic is 0.9 and 0.8 % behind, 5.5 % at worst. Numbers of other formats
are guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_gemm.cost import norm
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.selection.estimates import Estimate

CLOCK_SHARE = 0.843  # share of the highest clock at which clocks count
UNIT_CLOCKS = {
    "int4": 372,
    "int4_zp": 490,
    "mxfp4": 630,
}  # of two warpgroups' units, beside those of products
ALONE = 0.79  # share of them that one warpgroup takes
PROMOTION_CLOCKS = 150  # clocks for each promotion of a unit after the first
PRODUCT_CLOCKS = 2.251  # clocks for each column of a warpgroup's unit
IN_TURN_CLOCKS = {"int4": 319, "int4_zp": 415, "mxfp4": 426}  # as UNIT_CLOCKS, where two multiply in turn
IN_TURN_PRODUCT_CLOCKS = 2.4  # as PRODUCT_CLOCKS, where two multiply in turn
PARTS_CLOCKS, PARTS_PRODUCT_CLOCKS = 297, 2.27  # the same by parts, INT4 alone
AHEAD_CLOCKS = {"int4": 361, "int4_zp": 430, "mxfp4": 467}  # as UNIT_CLOCKS, with a decoder
AHEAD_PRODUCT_CLOCKS = 2.368  # as PRODUCT_CLOCKS, with a decoder
DECODER_CLOCKS = {
    "int4": 1136,
    "int4_zp": 1250,
    "mxfp4": 1292,
}  # of the decoder, for two units
BLOCKS_CLOCKS, BLOCKS_PRODUCT_CLOCKS = 412, 3.35  # as UNIT_CLOCKS and PRODUCT_CLOCKS, with blocks of 32
FAST_CLOCKS, FAST_PRODUCT_CLOCKS = 559, 1.398  # as UNIT_CLOCKS and PRODUCT_CLOCKS, with fast_accum
L2_BYTES_PER_CLOCK = 977  # bytes that an SM gets: no limit
HBM_SHARE = 0.85  # share of the rated bandwidth that is reached
EPILOGUE_BYTES_PER_CLOCK = 9.9  # of 128 bytes for each row of a tile
START_CLOCKS = 5160  # clocks of launch, the first stage's loads, and the last store
SHARED_SUMS_CLOCKS = 498  # clocks of sums that go through shared memory
SPLIT_CLOCKS = 2382  # clocks more for each range of k
SPILLING_SHARE = 1.5  # of the clocks of a loop for splits of k that spills
LEFT_CLOCKS = 8560  # clocks in which a balanced kernel's thread block leaves sums, and another one adds them
OTHER_CLOCKS = 1800  # clocks more for each further thread block that leaves sums of one tile
WAITING_CLOCKS = 5810  # clocks more where a tile is longer than a range: those that leave sums end as late


def unit_clocks(record: KernelRecord, problem: Problem, columns: int | None = None) -> float:
    """The clocks of a thread block for 128 of k; of a tile that is multiplied by `columns` columns alone."""
    tile_m, tile_n = (int(extent) for extent in record.config["tile"][:2])
    tile_n = columns or tile_n
    format, group = FORMATS[problem.weight_format]
    promotions = 1 if format == "mxfp4" else 128 // group
    if record.config["fast_accum"]:
        share = ALONE if tile_m == 64 else 1.0
        return share * (FAST_CLOCKS + 2 * FAST_PRODUCT_CLOCKS * tile_n)
    if record.config["block"] == 32:
        return BLOCKS_CLOCKS + 2 * BLOCKS_PRODUCT_CLOCKS * tile_n
    promoted = PROMOTION_CLOCKS * (promotions - 1)
    if record.config["schedule"] == "ahead":
        products = 2 * AHEAD_PRODUCT_CLOCKS * tile_n + AHEAD_CLOCKS[format] + promoted
        return max(products, DECODER_CLOCKS[format])
    if record.config["schedule"] == "in_turn":
        return 2 * IN_TURN_PRODUCT_CLOCKS * tile_n + IN_TURN_CLOCKS[format]
    if record.config["schedule"] == "parts_in_turn":
        return 2 * PARTS_PRODUCT_CLOCKS * tile_n + PARTS_CLOCKS
    beside = UNIT_CLOCKS[format] + promoted
    if tile_m == 64:
        return PRODUCT_CLOCKS * tile_n + ALONE * beside
    return 2 * PRODUCT_CLOCKS * tile_n + beside


class _Tiles:
    """The tiles of a kernel for a problem, in clocks."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        tile_m, tile_n, _ = record.config["tile"]
        self.down, self.across = ceil(problem.n / tile_m), ceil(problem.m / tile_n)
        self.units, self.rows = ceil(problem.k / 128), min(tile_n, problem.m)
        self.clock = device.clock_hz * CLOCK_SHARE
        self.hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
        self.of_unit = unit_clocks(record, problem)
        self.packed = problem.packed_bytes / problem.slices / self.units * tile_m / 64
        self.epilogue = self.rows * 128 / EPILOGUE_BYTES_PER_CLOCK

    def of_stage(self, cluster: int) -> float:
        """The clocks of 128 of k of a tile whose activations `cluster` thread blocks share."""
        return norm(self.of_unit, (self.packed + self.rows * 128 / cluster) / L2_BYTES_PER_CLOCK)

    def estimate(self, waves: int, math: float, added: float) -> Estimate:
        bounds = {"hbm": self.hbm, "math": math / self.clock}
        main_loop, overhead = max(bounds.values()), (START_CLOCKS + self.epilogue + added) / self.clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tiles = _Tiles(record, problem, device)

    def weigh(tactic: Tactic) -> Estimate:
        cluster, splits = max(extents(tactic.cluster)[0], 1), tactic.splits
        at_once = max(1, device.clusters_at_once(cluster * splits))
        waves = ceil(ceil(tiles.down / cluster) * tiles.across / at_once)
        of_tile = ceil(tiles.units / splits) * tiles.of_stage(cluster)
        of_tile *= SPILLING_SHARE if splits > 1 and record.spills else 1.0
        of_tile += tiles.epilogue if waves > 1 else 0.0
        added = waves * (SHARED_SUMS_CLOCKS + SPLIT_CLOCKS * splits) if splits > 1 else 0.0
        return tiles.estimate(waves, waves * of_tile, added)

    def weigh_balanced(tactic: Tactic) -> Estimate:
        cluster = max(extents(tactic.cluster)[0], 1)
        blocks = ceil(tiles.down / cluster) * tiles.across
        clusters = min(max(1, device.clusters_at_once(cluster)), blocks * tiles.units)
        stages, waves = ceil(blocks * tiles.units / clusters), ceil(blocks / clusters)
        math = stages * tiles.of_stage(cluster) + (waves - 1) * tiles.epilogue
        added = LEFT_CLOCKS
        if tiles.units > stages:
            added += WAITING_CLOCKS + OTHER_CLOCKS * (tiles.units // stages - 1)
        return tiles.estimate(waves, math, added)

    return weigh_balanced if record.config["balanced"] else weigh
