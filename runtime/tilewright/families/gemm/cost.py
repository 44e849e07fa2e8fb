"""A model of CUTLASS's kernels on sm_90a (`selection/persistent.py`).

Numbers that are not the hardware's own are fitted to the times of every tactic of the 67 kernels that take
97 problems of linear layers (bf16, e4m3 -> bf16, m from 16 to 4096) on one H200, L2 cold, launches back to
back. Fitted to half of the layers, they choose as well for the other half. A sample of the times is in
tests/runtime/data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import FP8, OWN_OPERANDS, Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.persistent import Loop, PersistentModel, Share

# The model is fitted to powers of two, where CUTLASS's tiles fit: beside lean kernels it promises too much.
# Those of its kernels that are quicker are tuned.
BEHIND_LEAN = 1.3


class Cutlass(PersistentModel):
    """A kernel on a problem. What is fitted stands with the measurements that say most about it."""

    # The hardware (CUDA programming guide, NVIDIA's H100 white paper).
    MULTIPLICATIONS: ClassVar = WGMMA.multiplications
    INSTRUCTION_M = 64
    SMEM_BYTES_PER_CLOCK = 128  # an SM's shared memory; wgmma reads both operands from it
    LANES = 128  # of an SM that add F32

    # One k tile.
    EIGHT_BIT_MATH_SHARE = 0.94  # of the tensor core's rate; 16-bit types reach it (m of 256 and more)
    ITERATION_CLOCKS: ClassVar = {"cooperative": 110, "pingpong": 135}  # barriers around a stage (m of 256)
    SM_FILL_BYTES_PER_CLOCK = 96  # k of 7168 for n of 2112
    L2_BYTES_PER_CLOCK = 6400  # to all SMs (tiles of 64 rows, m of 128)
    L2_SHARE_FOR_ONE = 0.0  # it is not looked at
    OUTSIDE_BYTES_PER_CLOCK = 18  # 64x64 takes longer for m of 16 than of 64
    MEMORY_SHARE = 0.92  # m of 16
    PROMOTION_SHARE = 1.8  # of the clocks that FP8's exact accumulation takes on paper (without fastacc)
    DISTURBANCE = 3

    # One launch.
    CLUSTER_SHARE: ClassVar = {1: 1.0, 2: 1.0, 4: 0.91, 8: 0.85}  # of SMs, that whole ones cover (4x1)
    SUSTAINED_SHARE: ClassVar = {8: 0.72, 16: 0.76, 32: 0.76}  # of the peak, by bits (m of 4096, n of 8192)
    LAUNCH_SECONDS = 1.1e-6  # beyond what programmatic launches overlap (problems of 7 us)
    FIRST_STAGE_CLOCKS = 1000  # m of 16
    EPILOGUE_CLOCKS = 250
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 13}  # k of 1536
    CLUSTER_CLOCKS = 190

    def math(self, cluster: tuple[int, int]) -> float:
        """wgmma, by the tensor core or by its shared-memory port where the tile is narrow, and barriers."""
        eight = self.width == 8
        multiplied = self.multiplied / (self.EIGHT_BIT_MATH_SHARE if eight else 1)
        read = self.tile_m / self.INSTRUCTION_M * (self.INSTRUCTION_M + self.tile_n) * self.tile_k
        port = read * self.width / 8 / self.SMEM_BYTES_PER_CLOCK
        clocks = max(multiplied, port) + self.ITERATION_CLOCKS[self.config["schedule"]]
        if self.problem.a in FP8 and not self.config["fast_accum"]:
            # Every 128 bytes of k each accumulator is added to a second one.
            added = self.tile_m * self.tile_n / self.LANES * (self.tile_k / 128)
            clocks += self.PROMOTION_SHARE * added
        return float(clocks)

    def sms(self, cluster: tuple[int, int]) -> int:
        size = cluster[0] * cluster[1]
        covered = int(self.device.sm_count * float(self.CLUSTER_SHARE.get(size, 0.8)))
        return max(size, covered // size * size)

    def power(self, loop: Loop, part: Share) -> float:
        """However the multiplications are spread."""
        tiles = loop.tiles * self.k_tiles / self.device.sm_count
        return float(tiles * self.multiplied / self.SUSTAINED_SHARE[self.width])


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    model = Cutlass(record, problem, device)
    model.slower = BEHIND_LEAN if problem.a in OWN_OPERANDS else 1.0
    return model.weigh
