"""A model of block-scaled kernels on tcgen05: sm_100 (B200), sm_103 (B300: ultra kernels), sm_110 (Thor).

Thread blocks are persistent, one to an SM. A k tile passes through a chain (a stage arrives, MMAs read it
from shared memory) and through L2 and memory, which disturb one another. A launch cannot multiply faster than
the GPU's power sustains, and traffic to memory uses some of that power.

We had no such GPU. The numbers rest on NVIDIA's data sheets and on times that others published:

- FlashInfer pull request 2303: NVFP4 on a B300, n of 8192, k of 8192 and 28672, m of 8 to 32768, before and
  after the ultra kernels. Its loop does not seem to clear L2: n and k of 8192 take 8.6 us for m of
  8, where the weights alone take 5 from memory. We take these as a warm L2's times.
- FlashInfer pull request 2540: NVFP4, CUTLASS's kernels among others, m of 1 to 64, L2 cleared; 1979: one
  larger problem, on a B200.
- SemiAnalysis, "Dissecting Nvidia Blackwell" (2026): MMAs with N below 128 wait for shared memory, which
  gives 128 bytes a clock; 2SM halves what an SM reads of B.

tests/runtime/blockscaled_gemm/test_blockscaled_cost.py holds the model to them. For MXFP8, MXFP4, mixed
types, quantised outputs and all of Thor there are only the data sheets.
"""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import TCGEN05, of_capability, of_target
from tilewright.declarations.table import KernelRecord
from tilewright.families.blockscaled_gemm.config import ULTRA_K, ULTRA_MMA_K
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.formats.types import bits
from tilewright.selection.persistent import Loop, PersistentModel, Share, norm


def is_ultra(record: KernelRecord) -> bool:
    """Whether the kernel multiplies with the MMAs that only sm_103 has, which its k tile shows."""
    return of_target(record.arch).tensor_core.fp4_k == ULTRA_MMA_K and record.config["tile"][2] == ULTRA_K


class Tcgen05(PersistentModel):
    """A kernel of sm_100, sm_103 or sm_110 on a problem."""

    MULTIPLICATIONS: ClassVar = TCGEN05.multiplications
    ULTRA_SPEEDUP = 1.5  # speed of sm_103's MMAs of K 96 over those of K 64: B300's 15 PFLOP/s over B200's 10
    SMEM_BYTES_PER_CLOCK = 128  # bytes per clock from shared memory, for both operands (SemiAnalysis)
    STAGE_BYTES = 128  # bytes of k that a stage holds at most; an ultra tile takes three stages

    # One k tile.
    STAGE_CLOCKS = 100  # a stage's barriers, which no MMA hides (2540: 0.75 ns for each k, n below 1300)
    NO_PREFETCH_CLOCKS = (
        20  # clocks more if an ultra kernel does not prefetch to L2; a guess that breaks ties
    )
    CLUSTER_STAGE_CLOCKS = 4  # clocks more for each further thread block of a cluster; a guess
    SM_FILL_BYTES_PER_CLOCK = 96  # as on an H200
    L2_SM_BYTES_PER_CLOCK = 60  # chosen so that 128x256 beats 128x128, as in 2303
    OUTSIDE_BYTES_PER_CLOCK = 64  # 2540: m of 1 takes no longer than m of 64
    MEMORY_SHARE = 0.9  # 2540: n of 9216; an H200 reaches 0.92
    DISTURBANCE = 1.5  # p of the p-norm of chain and memory (2540: near their sum; 2303, m of 512: less)

    # A whole launch. Power: 2303 reaches 0.66 of the peak with sm_100's kernels and 0.47 with ultra's where k
    # is 8192, 6 to 10 percent less where k is 28672 and operands are read again and again; BF16 there, 0.69.
    SUSTAINED_SHARE = 0.75  # share of the peak that power sustains without traffic to memory
    ULTRA_SUSTAINED_SHARE = 0.55  # the same for ultra kernels
    MEMORY_POWER = 0.3  # share of the time of traffic to memory by which it slows MMAs (2303, fitted)
    LAUNCH_SECONDS = 2.3e-6  # 2540: k of 256 takes 4.5 us with first stage and epilogue
    ULTRA_SECONDS = 1.4e-6  # more: 2303's ultra kernels gain with k of 28672 for m of 8, not with k of 8192
    FIRST_STAGE_CLOCKS = 1600  # and tensor memory (2540)
    EPILOGUE_CLOCKS = 600
    EPILOGUE_BYTES_PER_CLOCK: ClassVar = {"tma": 32, "direct_256": 32, "direct": 16}  # guesses
    # A tile of 256 columns leaves no tensor memory for the sums of the next tile, so that part of its
    # epilogue is not hidden.
    WIDE_COLUMNS, WIDE_SHOWN = 256, 0.4
    CLUSTER_CLOCKS = 200  # an H200's

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.ultra, self.pairs = is_ultra(record), self.config["schedule"] == "2sm"
        self.mma = self.multiplied / (self.ULTRA_SPEEDUP if self.ultra else 1)
        self.seconds += self.ULTRA_SECONDS if self.ultra else 0

    @classmethod
    def peak(cls, kind: Any, device: DeviceProperties) -> float:
        """The rate of FP4; on sm_103 the rate of its own MMAs, which multiply only FP4."""
        architecture, wide = of_capability(device.capability), max(bits(kind.a), bits(kind.b))
        ultra = architecture is not None and architecture.tensor_core.fp4_k == ULTRA_MMA_K and wide == 4
        return super().peak(kind, device) * (cls.ULTRA_SPEEDUP if ultra else 1)

    def math(self, cluster: tuple[int, int]) -> float:
        """The chain: MMAs, which wait for shared memory, and stages' barriers."""
        columns = self.tile_n / 2 if self.pairs else self.tile_n  # that this SM holds
        smem = (self.tile_m + columns) * self.tile_k * self.width / 8 / self.SMEM_BYTES_PER_CLOCK
        stages = max(1, self.tile_k * self.width // 8 // self.STAGE_BYTES)
        stage = self.STAGE_CLOCKS + self.CLUSTER_STAGE_CLOCKS * (cluster[0] * cluster[1] - 1)
        if self.ultra and self.config["prefetch"] == "none":
            stage += self.NO_PREFETCH_CLOCKS
        return float(max(self.mma, smem) + stages * stage)

    def together(self, math: float, fill: float, memory: float) -> float:
        """A stage is filled while others are multiplied: the slower of the two determines the time."""
        return norm(self.DISTURBANCE, max(math, fill), memory)

    def power(self, loop: Loop, part: Share) -> float:
        share = self.ULTRA_SUSTAINED_SHARE if self.ultra else self.SUSTAINED_SHARE
        whole, last = part.full_waves * part.full_k_tiles, part.last_k_tiles if part.busy else 0
        memory = loop.memory * (whole * loop.sms + last * part.busy)
        return (whole + last) * self.mma / share + self.MEMORY_POWER * memory

    def shown(self, epilogues: float) -> float:
        exposed = self.WIDE_SHOWN if self.tile_n >= self.WIDE_COLUMNS else 0
        return 1 + (ceil(epilogues) - 1) * exposed

    def sms(self, cluster: tuple[int, int]) -> int:
        """All SMs, because clusters of the fallback shape fill the SMs that others leave; pairs of SMs stay
        together."""
        return self.device.sm_count // 2 * 2 if self.pairs else self.device.sm_count
