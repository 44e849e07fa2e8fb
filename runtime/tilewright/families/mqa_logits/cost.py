"""A model of how long a tactic takes on sm_90a and sm_12x: to rank tactics, not to predict a clock.

Warpgroups take tiles of 64 keys in turn. A tile takes the tensor core `columns / 2` clocks for each 32 bytes
of a head (FP4 is multiplied as BF16). It takes each of the SM's four schedulers two instructions for a
product (relu; multiply and add), and some more for the tile. One warpgroup multiplies and then reduces;
several overlap. The model assumes that ragged queries look at all keys, because only the device knows their
ranges.
Constants of sm_90a are fitted to times on an H200. Nobody has timed the kernels on sm_12x: constants for it
rest on times of DeepGEMM's kernels on an RTX PRO 6000 (DeepGEMM pull request 324).
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import MMA_SYNC, WGMMA, TensorCore, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.problem import Problem
from tilewright.selection.estimates import Estimate

TILE = 64  # keys of a tile
TILE_INSTRUCTIONS = 110  # instructions of a warp for a tile, beside those for its products
ISSUE_SHARE = 0.75  # share of the issue slots that are used at best
ITEM_CLOCKS = 1500  # clocks before a block of queries starts on its keys: weights, ranges, first loads
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


def rates(record: KernelRecord) -> Rates | None:
    """The rates of a kernel; None if it emulates another architecture's instruction, which no model
    covers."""
    config = record.config
    if config["form"] == "schedule":
        return None
    if config["mma"] == "wgmma":
        return WGMMA_RATES[config["q"]]
    return MMA_SYNC_RATES[config["q"]] if has_tensor_core(record.arch, MMA_SYNC) else None


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of a kernel; None if no model covers it."""
    config, sms, own = record.config, device.sm_count, rates(record)
    if own is None:
        return None
    passes = ceil(problem.next_n / config["queries"])  # passes over a sequence's keys, each from memory
    moved = passes * problem.bytes / (own.memory_share * device.memory_bandwidth)
    columns, head_dim = config["heads"] * config["queries"], config["head_dim"]
    math = TILE * columns * head_dim / own.core.multiplications[own.bits] / own.math_share
    reducing = (columns + TILE_INSTRUCTIONS + own.decoding * head_dim) / ISSUE_SHARE
    clocks = max(math, reducing, (math + reducing + own.latency) / config["warpgroups"])

    def weigh(tactic: Tactic) -> Estimate:
        if config["form"] == "paged":
            waves = ceil(ceil(problem.keys / TILE) * passes * problem.sequences / sms)
            items = ceil(passes * problem.sequences / sms) + 1
        else:
            items = ceil(ceil(problem.queries / config["queries"]) * tactic.splits / sms)
            waves = items * ceil(problem.keys / TILE / tactic.splits)
        main = max((waves * clocks + items * ITEM_CLOCKS) / (own.clock_share * device.clock_hz), moved)
        return Estimate(LAUNCH_SECONDS + main, items, "math" if main > moved else "hbm", main, LAUNCH_SECONDS)

    return weigh
