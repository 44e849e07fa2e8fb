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

from tilewright.families.blockscaled_gemm.cost_sm120 import Sm120
from tilewright.selection.mma_model import MmaModel


class Mma(MmaModel, Sm120):
    """A kernel with our mainloop of mma.sync on a problem. The numbers of one k tile are those of CUTLASS's
    kernels."""

    SUSTAINED_SHARE: ClassVar = {8: 0.808, 4: 0.72}  # share of the peak that power sustains, by bits (324)

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of mma and of a stage's barriers. Loads of the next portion's fragments run beside the
        products of the current one."""
        return self.multiplied / self.MATH_SHARE + self.TILE_CLOCKS

    def sustained_share(self) -> float:
        return float(self.SUSTAINED_SHARE[self.width])
