"""A model of how long a tactic takes on sm_90a: to rank tactics, not to predict a clock.

Tiles of 64 keys go to warpgroups in turn. A tile takes the tensor core `columns / 2` clocks for 32 bytes of a
head as it is multiplied (FP4 as BF16), and each of the SM's four schedulers two instructions for a product
(relu, multiply and add) and some for the tile. A warpgroup does the one after the other; several overlap. Of
ragged queries all keys are taken, for nobody knows the ranges. Constants are fitted to times on an H200.
"""

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.problem import Problem
from tilewright.selection.estimates import Estimate

TILE = 64  # keys
MULTIPLIED_BITS = {"e4m3": 8, "mxfp4": 16}  # of an element, as it is multiplied
CLOCK_SHARE = 0.886  # of the highest clock
TILE_INSTRUCTIONS = 110  # of a warp, beside its products'
ISSUE_SHARE = 0.75  # of the issue slots that are used at best
DECODING_INSTRUCTIONS = 2.5  # of a warp, for an element of a key of FP4
TILE_LATENCY_CLOCKS = {"e4m3": 350, "mxfp4": 600}  # of a warpgroup's tile: barriers, what waits for results
ITEM_CLOCKS = 1500  # of a block of queries with its part of the keys: weights, ranges, an empty pipeline
LAUNCH_SECONDS = 3.5e-6
HBM_SHARE = 0.82  # of the rated bandwidth


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """The cost model of a kernel; None of those that it does not know."""
    config, sms = record.config, device.sm_count
    if record.arch != "sm_90a" or config["form"] == "schedule" or config["mma"] != "wgmma":
        return None
    passes = ceil(problem.next_n / config["queries"])  # over a sequence's keys: L2 has not kept them
    moved = passes * problem.bytes / (HBM_SHARE * device.memory_bandwidth)
    columns, head_dim = config["heads"] * config["queries"], config["head_dim"]
    math = TILE * columns * head_dim / WGMMA.multiplications[MULTIPLIED_BITS[config["q"]]]
    decoding = DECODING_INSTRUCTIONS * head_dim * (config["q"] != "e4m3")
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
