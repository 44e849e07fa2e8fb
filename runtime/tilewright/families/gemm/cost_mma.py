"""A model of the mma.sync kernels on sm_12x (`selection/persistent.py`): RTX PRO and RTX 50 (12.0), DGX Spark
(12.1).

Warps multiply with mma.sync, and one persistent thread block runs on each SM. There are no clusters. A split
k is added up by a second kernel.

Nobody has timed these kernels on such a GPU. The numbers come from NVIDIA's white papers and from the times
of DeepGEMM's kernels, which have the same structure, on an RTX PRO 6000 (DeepGEMM pull request 324):

- BF16: 374 TFLOP/s, by its author 98.5 % of what mma.sync reaches on that GPU (380 TFLOP/s, the rate at 1.97
  GHz). The white paper has 503.8 TFLOP/s at 2.617 GHz.
- FP8 with scale factors, 4096 rows: 624 TFLOP/s for (2112, 7168), 699 for (5120, 8192), 731 for (5120,
  25600). Its peak of 814 is the rate at 2.11 GHz.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import MMA_SYNC
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import FP8, Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.mma_model import MmaModel

LANES = 128  # F32 additions of an SM in a clock
# GeForce multiplies BF16 and FP8 with FP32 sums at half the rate (RTX Blackwell white paper: 209.5 TFLOP/s of
# BF16 on an RTX 5090, which has 170 SMs at 2.407 GHz).
GEFORCE_SHARE = 0.5


class Mma(MmaModel):
    """A kernel on a problem."""

    # BF16 has half of FP8's rate: 503.8 TFLOP/s, dense, with FP32 sums (RTX Blackwell PRO white paper).
    MULTIPLICATIONS: ClassVar = {8: MMA_SYNC.multiplications[8], 16: MMA_SYNC.multiplications[8] // 2}

    # One k tile.
    MATH_SHARE: ClassVar = {16: 0.95, 8: 0.85}  # share of the rate in a loop that nothing holds up (324)
    STAGE_CLOCKS: ClassVar = {"cooperative": 60, "pingpong": 30}  # clocks of a stage's barriers; a guess
    SM_FILL_BYTES_PER_CLOCK = 64  # this and the next two: as for block-scaled kernels of sm_12x
    L2_SM_BYTES_PER_CLOCK = 24
    OUTSIDE_BYTES_PER_CLOCK = 64
    # Share of the rated bandwidth. GDDR7: 0.69 (324: 1242 GB/s in its prenorm) to 0.91 (its paged logits);
    # FlashInfer pull request 2460 has 0.85 to 0.9. LPDDR (DGX Spark): FlashInfer pull request 3026.
    MEMORY_SHARES: ClassVar = {(12, 0): 0.85, (12, 1): 0.57}
    DISTURBANCE = 4

    # One launch.
    # Share of the peak that power sustains, by bits of an element (324; see above).
    SUSTAINED_SHARE: ClassVar = {16: 0.755, 8: 0.808}
    LAUNCH_SECONDS = 2.2e-6  # FlashInfer pull request 3026
    FIRST_STAGE_CLOCKS = 1600
    EPILOGUE_CLOCKS = 500
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 24}  # a guess, as for block-scaled kernels

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        self.rate = GEFORCE_SHARE if "GeForce" in device.name else 1.0
        super().__init__(record, problem, device)
        self.multiplied /= self.rate

    def sustained_share(self) -> float:
        """Power limits GPUs with the lower rate less."""
        return float(min(1.0, self.SUSTAINED_SHARE[self.width] / self.rate))

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of mma, of a stage's barriers, and of the additions into FP8's second sums."""
        clocks = self.multiplied / self.MATH_SHARE[self.width] + self.STAGE_CLOCKS[self.config["schedule"]]
        if self.problem.a in FP8 and not self.config["fast_accum"]:
            clocks += self.tile_m * self.tile_n * self.tile_k / 128 / LANES
        return float(clocks)

    def memory_share(self) -> float:
        return self.MEMORY_SHARES.get(self.device.capability, self.MEMORY_SHARES[12, 0])


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    return Mma(record, problem, device).weigh
