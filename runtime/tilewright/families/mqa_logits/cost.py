"""A model of how long a tactic takes on sm_90a: to rank tactics, not to predict a clock.

Warpgroups take tiles of 64 keys in turn. A tile takes the tensor core `columns / 2` clocks for each 32 bytes
of a head (FP4 is multiplied as BF16). It takes each of the SM's four schedulers two instructions for a
product (relu; multiply and add), and some more for the tile. One warpgroup multiplies and then reduces;
several overlap. Ragged queries are taken to look at all keys, because only the device knows their ranges.
Constants are fitted to times on an H200.
"""

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.problem import Problem
from tilewright.selection.estimates import Estimate

TILE = 64  # keys of a tile
MULTIPLIED_BITS = {"e4m3": 8, "mxfp4": 16}  # bits of an element when it is multiplied
CLOCK_SHARE = 0.886  # share of the highest clock at which clocks count
TILE_INSTRUCTIONS = 110  # instructions of a warp for a tile, beside those for its products
ISSUE_SHARE = 0.75  # share of the issue slots that are used at best
DECODING_INSTRUCTIONS = 2.5  # instructions of a warp for each FP4 element of a key
TILE_LATENCY_CLOCKS = {"e4m3": 350, "mxfp4": 600}  # clocks of a tile in barriers and in waiting for results
ITEM_CLOCKS = 1500  # clocks before a block of queries starts on its keys: weights, ranges, first loads
LAUNCH_SECONDS = 3.5e-6
HBM_SHARE = 0.82  # share of the rated bandwidth that is reached


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of a kernel that multiplies by wgmma; None for other kernels."""
    config, sms = record.config, device.sm_count
    if config["form"] == "schedule" or config["mma"] != "wgmma":
        return None
    passes = ceil(problem.next_n / config["queries"])  # passes over a sequence's keys, each from HBM
    moved = passes * problem.bytes / (HBM_SHARE * device.memory_bandwidth)
    columns, head_dim = config["heads"] * config["queries"], config["head_dim"]
    math = TILE * columns * head_dim / WGMMA.multiplications[MULTIPLIED_BITS[config["q"]]]
    decoding = DECODING_INSTRUCTIONS * head_dim if config["q"] == "mxfp4" else 0
    reducing = (columns + TILE_INSTRUCTIONS + decoding) / ISSUE_SHARE
    clocks = max(math, reducing, (math + reducing + TILE_LATENCY_CLOCKS[config["q"]]) / config["warpgroups"])

    def weigh(tactic: Tactic) -> Estimate:
        if config["form"] == "paged":
            waves = ceil(ceil(problem.keys / TILE) * passes * problem.sequences / sms)
            items = ceil(passes * problem.sequences / sms) + 1
        else:
            items = ceil(ceil(problem.queries / config["queries"]) * tactic.splits / sms)
            waves = items * ceil(problem.keys / TILE / tactic.splits)
        main = max((waves * clocks + items * ITEM_CLOCKS) / (CLOCK_SHARE * device.clock_hz), moved)
        return Estimate(LAUNCH_SECONDS + main, items, "math" if main > moved else "hbm", main, LAUNCH_SECONDS)

    return weigh
