"""A model of CUTLASS's kernels on sm_90a (`selection/persistent.py`).

Numbers that are not the hardware's own are fitted to the times of every tactic of 67 kernels for 97 problems
of linear layers (bf16; e4m3 -> bf16; m from 16 to 4096) on one H200, with a cold L2 and back-to-back
launches. If they are fitted to half of the layers, they choose as well for the other half. A sample of the
times is in tests/runtime/data. A comment in brackets names the measurements that say most about a number.
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

# Factor on the estimated times of CUTLASS's kernels when they compete with lean kernels. The model was fitted
# to extents that are powers of two, which suit CUTLASS's tiles; for other extents it is too low. Problems for
# which CUTLASS's kernels are faster have tuned entries.
BEHIND_LEAN = 1.3


class Cutlass(PersistentModel):
    """A kernel on a problem."""

    # The hardware (CUDA programming guide, NVIDIA's H100 white paper).
    MULTIPLICATIONS: ClassVar = WGMMA.multiplications
    INSTRUCTION_M = 64  # rows of a wgmma
    SMEM_BYTES_PER_CLOCK = 128  # bytes per clock of an SM's shared memory; wgmma reads both operands from it
    LANES = 128  # F32 additions of an SM in a clock

    # One k tile.
    EIGHT_BIT_MATH_SHARE = 0.94  # share of the rate that 8-bit types reach; others reach all (m from 256)
    ITERATION_CLOCKS: ClassVar = {"cooperative": 110, "pingpong": 135}  # barriers of a stage (m of 256)
    SM_FILL_BYTES_PER_CLOCK = 96  # (k of 7168 for n of 2112)
    L2_BYTES_PER_CLOCK = 6400  # (tiles of 64 rows, m of 128)
    L2_SHARE_FOR_ONE = 0.0  # not modelled
    OUTSIDE_BYTES_PER_CLOCK = 18  # (64x64 takes longer for m of 16 than for m of 64)
    MEMORY_SHARE = 0.92  # (m of 16)
    PROMOTION_SHARE = 1.8  # factor on the paper clocks of FP8's exact accumulation (without fastacc)
    DISTURBANCE = 3

    # One launch.
    CLUSTER_SHARE: ClassVar = {1: 1.0, 2: 1.0, 4: 0.91, 8: 0.85}  # share of SMs in clusters, by size (4x1)
    # Share of the peak that power sustains, by bits of an element (m of 4096, n of 8192).
    SUSTAINED_SHARE: ClassVar = {8: 0.72, 16: 0.76, 32: 0.76}
    LAUNCH_SECONDS = 1.1e-6  # what programmatic launches do not overlap (problems of 7 us)
    FIRST_STAGE_CLOCKS = 1000  # (m of 16)
    EPILOGUE_CLOCKS = 250
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 13}  # (k of 1536)
    CLUSTER_CLOCKS = 190

    def math(self, cluster: tuple[int, int]) -> float:
        """The clocks of wgmma, and of barriers. For a narrow tile the shared-memory port limits wgmma."""
        eight = self.width == 8
        multiplied = self.multiplied / (self.EIGHT_BIT_MATH_SHARE if eight else 1)
        read = self.tile_m / self.INSTRUCTION_M * (self.INSTRUCTION_M + self.tile_n) * self.tile_k
        port = read * self.width / 8 / self.SMEM_BYTES_PER_CLOCK
        clocks = max(multiplied, port) + self.ITERATION_CLOCKS[self.config["schedule"]]
        if self.problem.a in FP8 and not self.config["fast_accum"]:
            # After every 128 bytes of k, each accumulator is added to a second one.
            added = self.tile_m * self.tile_n / self.LANES * (self.tile_k / 128)
            clocks += self.PROMOTION_SHARE * added
        return float(clocks)

    def sms(self, cluster: tuple[int, int]) -> int:
        size = cluster[0] * cluster[1]
        covered = int(self.device.sm_count * float(self.CLUSTER_SHARE.get(size, 0.8)))
        return max(size, covered // size * size)

    def power(self, loop: Loop, part: Share) -> float:
        """The clocks do not depend on how the multiplications are spread over SMs."""
        tiles = loop.tiles * self.k_tiles / self.device.sm_count
        return float(tiles * self.multiplied / self.SUSTAINED_SHARE[self.width])


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    model = Cutlass(record, problem, device)
    model.slower = BEHIND_LEAN if problem.a in OWN_OPERANDS else 1.0
    return model.weigh
