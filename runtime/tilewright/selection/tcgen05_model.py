"""A model of persistent kernels of tcgen05: sm_100 (B200), sm_103 (B300), sm_110 (Thor).

Thread blocks are persistent, one to an SM. A k tile passes through a chain (a stage arrives, MMAs read it
from shared memory) and through L2 and memory, which disturb one another. A launch cannot multiply faster than
the GPU's power sustains, and traffic to memory uses some of that power.

We had no such GPU. The numbers rest on NVIDIA's data sheets and on times that others published of NVFP4:

- FlashInfer pull request 2303: NVFP4 on a B300, n of 8192, k of 8192 and 28672, m of 8 to 32768. BF16 stands
  beside it for two of these rows.
- FlashInfer pull request 2540: NVFP4, CUTLASS's kernels among others, m of 1 to 64, L2 cleared; 1979: one
  larger problem, on a B200.
- SemiAnalysis, "Dissecting Nvidia Blackwell" (2026): MMAs with N below 128 wait for shared memory, which
  gives 128 bytes a clock; 2SM halves what an SM reads of B.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import TCGEN05
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.persistent import SUM_BYTES, Loop, PersistentModel, Share, norm, share


def shares_k(tactic: Tactic) -> bool:
    """Whether the thread blocks of a cluster share k: kernels that divide k in memory say how."""
    return tactic.splits > 1 and tactic.decomposition == "heuristic"


class Tcgen05Model(PersistentModel):
    """A kernel of sm_100, sm_103 or sm_110 on a problem."""

    MULTIPLICATIONS: ClassVar = TCGEN05.multiplications
    SMEM_BYTES_PER_CLOCK = 128  # bytes per clock from shared memory, for both operands (SemiAnalysis)
    STAGE_BYTES = 128  # bytes of k that a stage holds at most

    # One k tile.
    STAGE_CLOCKS = 100  # a stage's barriers, which no MMA hides (2540: 0.75 ns for each k, n below 1300)
    CLUSTER_STAGE_CLOCKS = 4  # clocks more for each further thread block of a cluster; a guess
    SM_FILL_BYTES_PER_CLOCK = 96  # as on an H200
    L2_SM_BYTES_PER_CLOCK = 60  # chosen so that 128x256 beats 128x128, as in 2303
    OUTSIDE_BYTES_PER_CLOCK = 64  # 2540: m of 1 takes no longer than m of 64
    MEMORY_SHARE = 0.9  # 2540: n of 9216; an H200 reaches 0.92
    DISTURBANCE = 1.5  # p of the p-norm of chain and memory (2540: near their sum; 2303, m of 512: less)

    # A whole launch. Power: 2303 reaches 0.66 of the peak with sm_100's kernels where k is 8192, 6 to 10
    # percent less where k is 28672 and operands are read again and again; BF16 there, 0.69.
    SUSTAINED_SHARE = 0.75  # share of the peak that power sustains without traffic to memory
    MEMORY_POWER = 0.3  # share of the time of traffic to memory by which it slows MMAs (2303, fitted)
    LAUNCH_SECONDS = 2.3e-6  # 2540: k of 256 takes 4.5 us with first stage and epilogue
    FIRST_STAGE_CLOCKS = 1600  # and tensor memory (2540)
    EPILOGUE_CLOCKS = 600
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 32, "direct_256": 32, "direct": 16}  # guesses
    CLUSTER_CLOCKS = 200  # an H200's
    # A k that the thread blocks of a cluster share: clocks of two barriers of the cluster, and bytes of sums
    # per clock from another SM's shared memory. An H200's, in block-scaled kernels.
    SHARED_K_CLOCKS = 2220
    SHARED_K_BYTES_PER_CLOCK = 6.9
    # A tile of `WIDE_COLUMNS` or more leaves no tensor memory for the sums of the next tile, so that this
    # share of its epilogue is not hidden.
    WIDE_COLUMNS, WIDE_SHOWN = 512, 0.0

    def __init__(self, record: KernelRecord, problem: Any, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.pairs = self.config["schedule"] == "2sm"
        self.mma, self.share = self.multiplied, self.SUSTAINED_SHARE

    def busiest(self, tactic: Tactic, loop: Loop) -> Share:
        if not shares_k(tactic):
            return super().busiest(tactic, loop)
        sms = max(1, self.device.clusters_at_once(tactic.splits)) * tactic.splits
        return share(replace(tactic, decomposition="split_k"), loop.tiles, self.k_tiles, min(sms, loop.sms))

    def exchanged(self, tactic: Tactic, own_share: Share) -> float:
        if not shares_k(tactic):
            return super().exchanged(tactic, own_share)
        loaded = self.tile_m * self.tile_n * SUM_BYTES * (tactic.splits - 1) / tactic.splits
        clocks = self.SHARED_K_CLOCKS + loaded / self.SHARED_K_BYTES_PER_CLOCK
        return float(own_share.epilogues * clocks)

    def math(self, cluster: tuple[int, int]) -> float:
        """The chain: MMAs, which wait for shared memory, and stages' barriers."""
        columns = self.tile_n / 2 if self.pairs else self.tile_n  # that this SM holds
        smem = (self.tile_m + columns) * self.tile_k * self.width / 8 / self.SMEM_BYTES_PER_CLOCK
        stages = max(1, self.tile_k * self.width // 8 // self.STAGE_BYTES)
        return float(max(self.mma, smem) + stages * self.stage_clocks(cluster))

    def stage_clocks(self, cluster: tuple[int, int]) -> float:
        """The clocks of a stage's barriers."""
        return self.STAGE_CLOCKS + self.CLUSTER_STAGE_CLOCKS * (cluster[0] * cluster[1] - 1)

    def together(self, math: float, fill: float, memory: float) -> float:
        """A stage is filled while others are multiplied: the slower of the two determines the time."""
        return norm(self.DISTURBANCE, max(math, fill), memory)

    def power(self, loop: Loop, part: Share) -> float:
        whole, last = part.full_waves * part.full_k_tiles, part.last_k_tiles if part.busy else 0
        memory = loop.memory * (whole * loop.sms + last * part.busy)
        return (whole + last) * self.mma / self.share + self.MEMORY_POWER * memory

    def shown(self, epilogues: float) -> float:
        exposed = self.WIDE_SHOWN if self.tile_n >= self.WIDE_COLUMNS else 0
        return 1 + (ceil(epilogues) - 1) * exposed
