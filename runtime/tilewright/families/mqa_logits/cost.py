"""A model of how long a tactic takes: to rank tactics, not to predict a clock.

Warpgroups take tiles of 64 keys in turn, or with tcgen05 of 128. A tile takes the tensor core `columns / 2`
clocks on sm_90a for each 32 bytes of a head (FP4 is multiplied as BF16). It takes each of the SM's four
schedulers two instructions for a product (relu; multiply and add), with tcgen05 one and a half, and some more
for the tile. One warpgroup multiplies and then reduces; several overlap. The model assumes that ragged
queries look at all keys, because only the device knows their ranges.
Constants of sm_90a are fitted to times on an H200. Nobody has timed the kernels elsewhere. Constants for
sm_12x rest on times of DeepGEMM's kernels on an RTX PRO 6000 (DeepGEMM pull request 324), those of tcgen05 on
times of kernels in CuTe-DSL that also have two warpgroups and tiles of 128 keys (TensorRT-LLM pull requests
13219, FP8, and 13929, FP4).
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, TensorCore, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.problem import Problem
from tilewright.selection.estimates import Estimate

TILE = 64  # keys of the smallest tile
TILE_INSTRUCTIONS = 110  # instructions of a warp for a tile, beside those for its products
ISSUE_SHARE = 0.75  # share of the issue slots that are used at best
LAUNCH_SECONDS = 3.5e-6


class Rates(NamedTuple):
    """The rates of a type of keys on a kind of tensor core."""

    core: TensorCore
    bits: int  # of an element when it is multiplied
    math_share: float  # share of the tensor core's rate that is reached
    clock_share: float  # share of the highest clock at which clocks count
    latency: float  # clocks of a tile in barriers and in waiting for results
    decoding: float  # instructions of a warp for each element of a key
    memory_share: float  # share of the rated bandwidth that is reached
    tile: int = TILE  # keys of a tile
    reducing: float = 1.0  # instructions of a warp for each column of a tile
    item_clocks: int = 1500  # before a block of queries starts on its keys: weights, ranges, first loads
    l2_share: float = 0.0  # share of L2 that keeps keys for the next pass over them


# On sm_90a FP4 is multiplied as BF16.
WGMMA_RATES = {
    "e4m3": Rates(WGMMA, 8, 1.0, 0.886, 350, 0, 0.82),
    "mxfp4": Rates(WGMMA, 16, 1.0, 0.886, 600, 2.5, 0.82),
}
# 324: 651 TFLOP/s in FP8, 80 % of its peak of 814, which is the rate at 2.11 of 2.617 GHz; 1022 in FP4; 1.35
# TB/s of 1.792.
MMA_SYNC_RATES = {
    "e4m3": Rates(MMA_SYNC, 8, 0.82, 0.808, 350, 0, 0.75),
    "mxfp4": Rates(MMA_SYNC, 4, 0.85, 0.76, 250, 0, 0.75),
}
# A thread has a key with all of its products. Tensor memory holds two tiles of FP8's products for each
# warpgroup, so that one is multiplied while the other is reduced, and one of FP4's, for which it waits.
TCGEN05_RATES = {
    "e4m3": Rates(TCGEN05, 8, 1.0, 0.9, 0, 0, 0.85, tile=128, reducing=1.5, item_clocks=500, l2_share=0.8),
    "mxfp4": Rates(TCGEN05, 4, 1.0, 0.9, 740, 0, 0.85, tile=128, reducing=1.5, item_clocks=500, l2_share=0.8),
}


def rates(record: KernelRecord) -> Rates | None:
    """The rates of a kernel; None if it emulates another architecture's instruction, which no model
    covers."""
    config = record.config
    if config["form"] == "schedule":
        return None
    if config["mma"] == "wgmma":
        return WGMMA_RATES[config["q"]]
    if config["mma"] == "tcgen05":
        return TCGEN05_RATES[config["q"]] if has_tensor_core(record.arch, TCGEN05) else None
    return MMA_SYNC_RATES[config["q"]] if has_tensor_core(record.arch, MMA_SYNC) else None


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of a kernel; None if no model covers it."""
    config, sms, own = record.config, device.sm_count, rates(record)
    if own is None:
        return None
    passes = ceil(problem.next_n / config["queries"])  # over a sequence's keys
    # A thread block passes over its keys of a sequence again before it goes on to the next sequence.
    between = min(problem.bytes, sms * problem.keys * problem.key_bytes)
    from_memory = 1 if between <= own.l2_share * device.l2_bytes else passes
    moved = from_memory * problem.bytes / (own.memory_share * device.memory_bandwidth)
    columns, head_dim = config["heads"] * config["queries"], config["head_dim"]
    math = own.tile * columns * head_dim / own.core.multiplications[own.bits] / own.math_share
    reducing = (own.reducing * columns + TILE_INSTRUCTIONS + own.decoding * head_dim) / ISSUE_SHARE
    clocks = max(math, reducing, (math + reducing + own.latency) / config["warpgroups"])

    def weigh(tactic: Tactic) -> Estimate:
        if config["form"] == "paged":
            waves = ceil(ceil(problem.keys / own.tile) * passes * problem.sequences / sms)
            items = ceil(passes * problem.sequences / sms) + 1
        else:
            items = ceil(ceil(problem.queries / config["queries"]) * tactic.splits / sms)
            waves = items * ceil(problem.keys / own.tile / tactic.splits)
        main = max((waves * clocks + items * own.item_clocks) / (own.clock_share * device.clock_hz), moved)
        return Estimate(LAUNCH_SECONDS + main, items, "math" if main > moved else "hbm", main, LAUNCH_SECONDS)

    return weigh
