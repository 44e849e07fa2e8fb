"""A model of block-scaled kernels on tcgen05 (selection/tcgen05_model.py): sm_100 (B200), sm_103 (B300: ultra
kernels), sm_110 (Thor).

The times of FlashInfer's pull request 2303 before and after the ultra kernels do not seem to be those of
a cleared L2: n and k of 8192 take 8.6 us for m of 8, where the weights alone take 5 from memory. We take
them as a warm L2's times. tests/runtime/blockscaled_gemm/test_blockscaled_measured.py holds the model to
them.
For MXFP8, MXFP4, mixed types, quantised outputs and all of Thor there are only the data sheets.
"""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import of_capability, of_target
from tilewright.declarations.table import KernelRecord
from tilewright.families.blockscaled_gemm.config import RUBIN_MMA_K, ULTRA_K, ULTRA_MMA_K
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.formats.types import bits
from tilewright.selection.tcgen05_model import Tcgen05Model


def is_ultra(record: KernelRecord) -> bool:
    """Whether the kernel multiplies with the MMAs that only sm_103 has, which its k tile shows."""
    return of_target(record.arch).tensor_core.fp4_k == ULTRA_MMA_K and record.config["tile"][2] == ULTRA_K


class Tcgen05(Tcgen05Model):
    """A kernel of sm_100, sm_103 or sm_110 on a problem. An ultra tile takes three stages."""

    ULTRA_SPEEDUP = 1.5  # speed of sm_103's MMAs of K 96 over those of K 64: B300's 15 PFLOP/s over B200's 10
    # Speed of Rubin's MMAs of K 128 over those of K 64, with NVFP4: 35 PFLOP/s where BF16 has 4 (NVIDIA's
    # article "Inside the NVIDIA Rubin Platform"), a B200's 10 where BF16 has 2.25, rounded down.
    RUBIN_SPEEDUP = 1.9
    NO_PREFETCH_CLOCKS = (
        20  # clocks more if an ultra kernel does not prefetch to L2; a guess that breaks ties
    )
    ULTRA_SUSTAINED_SHARE = (
        0.55  # share of the peak that power sustains: 2303 reaches 0.47 with ultra kernels
    )
    ULTRA_SECONDS = 1.4e-6  # more: 2303's ultra kernels gain with k of 28672 for m of 8, not with k of 8192
    # The scale factors of a tile of 256 columns take the tensor memory of the next tile's sums.
    WIDE_COLUMNS, WIDE_SHOWN = 256, 0.4

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.ultra = is_ultra(record)
        if of_target(record.arch).tensor_core.fp4_k == RUBIN_MMA_K:
            self.mma = self.multiplied / self.RUBIN_SPEEDUP
        if self.ultra:
            self.mma, self.share = self.multiplied / self.ULTRA_SPEEDUP, self.ULTRA_SUSTAINED_SHARE
            self.seconds += self.ULTRA_SECONDS

    @classmethod
    def peak(cls, kind: Any, device: DeviceProperties) -> float:
        """The rate of FP4; on sm_103 and sm_107 the rate of their own MMAs, which multiply only FP4."""
        architecture, wide = of_capability(device.capability), max(bits(kind.a), bits(kind.b))
        speedups = {ULTRA_MMA_K: cls.ULTRA_SPEEDUP, RUBIN_MMA_K: cls.RUBIN_SPEEDUP}
        fp4_k = architecture.tensor_core.fp4_k if architecture is not None and wide == 4 else 0
        return super().peak(kind, device) * speedups.get(fp4_k, 1)

    def stage_clocks(self, cluster: tuple[int, int]) -> float:
        prefetches = not self.ultra or self.config["prefetch"] != "none"
        return super().stage_clocks(cluster) + (0 if prefetches else self.NO_PREFETCH_CLOCKS)

    def sms(self, cluster: tuple[int, int]) -> int:
        """All SMs, because clusters of the fallback shape fill the SMs that others leave; pairs of SMs stay
        together."""
        return self.device.sm_count // 2 * 2 if self.pairs else self.device.sm_count
