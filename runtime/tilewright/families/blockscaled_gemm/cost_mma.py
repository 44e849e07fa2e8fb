"""A model of our block-scaled kernels of mma.sync on sm_12x: RTX PRO and RTX 50 (12.0), DGX Spark (12.1).

Nobody has timed these kernels on such a GPU. The numbers come from the model of CUTLASS's kernels there, and
from the times of DeepGEMM's kernels, which have the same structure, on an RTX PRO 6000 (DeepGEMM pull request
324), in TFLOP/s for 4096 rows:

| n | k | FP8 | FP4 |
|---|---|---|---|
| 2112 | 7168 | 624 | 1307 |
| 7168 | 2048 | | 1201 |
| 24576 | 1536 | 637 | 1168 |
| 5120 | 25600 | 731 | |

FP8 beside FP4 reaches 670 there. With few rows, memory is the limit, and only CUTLASS's kernels were timed
(FlashInfer pull request 2460: 69 us for (32, 5120, 25600)).
"""

from __future__ import annotations

from typing import ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.cost_sm120 import Sm120
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.persistent import SUM_BYTES, Loop, Share


class Mma(Sm120):
    """A kernel with our mainloop of mma.sync on a problem."""

    # Of one k tile the model of CUTLASS's kernels has the numbers. Of one launch:
    SUSTAINED_SHARE: ClassVar = {8: 0.808, 4: 0.72}  # share of the peak that power sustains, by bits (324)
    COMBINE_SECONDS = 2.2e-6  # the second kernel: as long as a launch
    SUMS_L2_BYTES_PER_CLOCK = 1500  # bytes of sums that both kernels move in a clock; as on an H200

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.exchange = 0.0  # k ranges of a tile do not wait for one another

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of mma and of a stage's barriers. Loads of the next portion's fragments run beside the
        products of the current one."""
        return self.multiplied / self.MATH_SHARE + self.TILE_CLOCKS

    def power(self, loop: Loop, part: Share) -> float:
        """The clocks do not depend on how the multiplications are spread over SMs."""
        tiles = loop.tiles * self.k_tiles / self.device.sm_count
        return float(tiles * self.multiplied / self.SUSTAINED_SHARE[self.width])

    def weigh(self, tactic: Tactic) -> Estimate:
        """The time of a launch, and of the kernel that adds up a split k."""
        estimate = super().weigh(tactic)
        if tactic.splits == 1:
            return estimate
        sums = self.problem.batch * self.rows * self.columns * SUM_BYTES * tactic.splits
        moved = 2 * sums / self.SUMS_L2_BYTES_PER_CLOCK / self.device.clock_hz
        added = self.COMBINE_SECONDS + moved
        return estimate._replace(seconds=estimate.seconds + added, overhead=estimate.overhead + added)
