"""A model of block-scaled kernels on sm_12x: RTX PRO and RTX 50 (12.0), DGX Spark (12.1).

Warps multiply with mma.sync, so that loading fragments and multiplying share the same instruction streams;
there are no clusters. Thread blocks are persistent, one to an SM.

We had no such GPU. The numbers rest on NVIDIA's white paper and on times that others published:

- FlashInfer pull request 2460: (32, 5120, 25600) in NVFP4 on an RTX PRO 6000 takes 124 us in tiles of
  128x128x128 and 69 us with stream-K.
- FlashInfer pull request 3026: m of 64, n of 5120, k of 640 to 16384, the same kernels, tuned, on a GPU of
  12.0 (its model is not named) and on a second GPU, of 12.1 by its times.
- QuACK pull request 153: 8192x8192x8192 on an RTX 5090, 1343 TFLOP/s in NVFP4 and 650 in MXFP8.
- DeepGEMM pull request 324: 81 percent of the peak for FP4 on an RTX PRO 6000, 91 percent of the bandwidth.

We know of no measurements of swapped operands, ping-pong, mixed types and quantised outputs.
"""

from __future__ import annotations

from typing import ClassVar

from tilewright.architectures.table import MMA_SYNC
from tilewright.selection.persistent import PersistentModel


class Sm120(PersistentModel):
    """A kernel of sm_12x on a problem."""

    MULTIPLICATIONS: ClassVar = MMA_SYNC.multiplications

    # One k tile.
    MATH_SHARE = 0.85  # share of the tensor core's rate that is reached (QuACK 153: 0.80 of the peak in all)
    # Clocks of a stage's barriers (2460, 3026: a tile of 128x128x128 takes 9.5 to 12.7 clocks for each k).
    TILE_CLOCKS = 130
    FRAGMENT_CLOCKS = 1.6  # clocks for each element of k of loading fragments, which no mma hides (the same)
    PINGPONG_SHARE = 0.5  # share of these two that is not hidden in ping-pong kernels; a guess
    SM_FILL_BYTES_PER_CLOCK = 64  # a guess, between what mma.sync and TMA take elsewhere
    L2_SM_BYTES_PER_CLOCK = 24  # a guess that leaves QuACK 153's 8192 bound by math
    OUTSIDE_BYTES_PER_CLOCK = 64  # as tcgen05's
    # Share of the rated bandwidth. GDDR7: 2460; DeepGEMM 324 reaches 0.91. LPDDR (DGX Spark): 3026's second
    # GPU, if it is one of 273 GB/s.
    MEMORY_SHARES: ClassVar = {(12, 0): 0.85, (12, 1): 0.57}
    DISTURBANCE = 2  # 2460, 3026

    # A whole launch. Stream-K's numbers agree with 2460 and 3026.
    LAUNCH_SECONDS = 2.2e-6  # 3026: k of 640 takes 7.4 us
    FIRST_STAGE_CLOCKS = 1600
    EPILOGUE_CLOCKS = 500
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 24}  # a guess

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of mma, and those of barriers and fragments that mma does not hide."""
        exposed: float = self.TILE_CLOCKS + self.FRAGMENT_CLOCKS * self.tile_k
        if self.config["schedule"] == "pingpong":
            exposed *= self.PINGPONG_SHARE
        return self.multiplied / self.MATH_SHARE + exposed

    def memory_share(self) -> float:
        return self.MEMORY_SHARES.get(self.device.capability, self.MEMORY_SHARES[12, 0])
