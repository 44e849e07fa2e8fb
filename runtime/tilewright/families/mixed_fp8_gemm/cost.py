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
experts. Numbers of other formats are guessed.
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
PARTS_CLOCKS, PARTS_PRODUCT_CLOCKS = 280, 2.34  # the same by parts, INT4 alone
AHEAD_CLOCKS = {"int4": 361, "int4_zp": 430, "mxfp4": 467}  # as UNIT_CLOCKS, with a decoder
AHEAD_PRODUCT_CLOCKS = 2.368  # as PRODUCT_CLOCKS, with a decoder
DECODER_CLOCKS = {
    "int4": 1136,
    "int4_zp": 1250,
    "mxfp4": 1292,
}  # of the decoder, for two units
BLOCKS_CLOCKS, BLOCKS_PRODUCT_CLOCKS = 412, 3.35  # as UNIT_CLOCKS and PRODUCT_CLOCKS, with blocks of 32
FAST_CLOCKS, FAST_PRODUCT_CLOCKS = 518, 1.398  # as UNIT_CLOCKS and PRODUCT_CLOCKS, with fast_accum
L2_BYTES_PER_CLOCK = 977  # bytes that an SM gets: no limit
HBM_SHARE = 0.85  # share of the rated bandwidth that is reached
EPILOGUE_BYTES_PER_CLOCK = 8.9  # of 128 bytes for each row of a tile
START_CLOCKS = 5160  # clocks of launch, the first stage's loads, and the last store
SHARED_SUMS_CLOCKS = 498  # clocks of sums that go through shared memory
SPLIT_CLOCKS = 2382  # clocks more for each range of k


def unit_clocks(record: KernelRecord, problem: Problem) -> float:
    """The clocks of a thread block for 128 of k."""
    tile_m, tile_n = (int(extent) for extent in record.config["tile"][:2])
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


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    tile_m, tile_n, _ = record.config["tile"]
    down, across = ceil(problem.n / tile_m), ceil(problem.m / tile_n)
    rows, units = min(tile_n, problem.m), ceil(problem.k / 128)
    clock = device.clock_hz * CLOCK_SHARE
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE)
    of_unit = unit_clocks(record, problem)
    packed = problem.packed_bytes / problem.slices / units * tile_m / 64
    epilogue = rows * 128 / EPILOGUE_BYTES_PER_CLOCK

    def weigh(tactic: Tactic) -> Estimate:
        cluster, splits = max(extents(tactic.cluster)[0], 1), tactic.splits
        at_once = max(1, device.clusters_at_once(cluster * splits))
        waves = ceil(ceil(down / cluster) * across / at_once)
        loads = (packed + rows * 128 / cluster) / L2_BYTES_PER_CLOCK
        of_tile = ceil(units / splits) * norm(of_unit, loads) + (epilogue if waves > 1 else 0.0)
        added = START_CLOCKS + epilogue
        if splits > 1:
            added += waves * (SHARED_SUMS_CLOCKS + SPLIT_CLOCKS * splits)
        bounds = {"hbm": hbm, "math": waves * of_tile / clock}
        main_loop, overhead = max(bounds.values()), added / clock
        bound = max(bounds, key=lambda name: bounds[name])
        return Estimate(main_loop + overhead, waves, bound, main_loop, overhead)

    return weigh
