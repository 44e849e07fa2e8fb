"""What the models of our kernels of mma.sync on sm_12x have in common: a second kernel adds up a split k, and
power sustains a share of the tensor cores' rate."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.estimates import Estimate
from tilewright.selection.persistent import SUM_BYTES, Loop, PersistentModel, Share


class MmaModel(PersistentModel):
    """A kernel on a problem. There are no clusters."""

    COMBINE_SECONDS = 2.2e-6  # the second kernel: as long as a launch
    SUMS_L2_BYTES_PER_CLOCK = 1500  # bytes of sums that both kernels move in a clock; as on an H200

    def __init__(self, record: KernelRecord, problem: Any, device: DeviceProperties) -> None:
        super().__init__(record, problem, device)
        self.exchange = 0.0  # k ranges of a tile do not wait for one another
        self.sustained = self.sustained_share()

    def sustained_share(self) -> float:
        """The share of the rate of multiplications that power sustains."""
        raise NotImplementedError

    def power(self, loop: Loop, part: Share) -> float:
        """The clocks do not depend on how the multiplications are spread over SMs."""
        tiles = loop.tiles * self.k_tiles / self.device.sm_count
        return float(tiles * self.multiplied / self.sustained)

    def weigh(self, tactic: Tactic) -> Estimate:
        """The time of a launch, and of the kernel that adds up a split k."""
        estimate = super().weigh(tactic)
        if tactic.splits == 1:
            return estimate
        sums = self.problem.batch * self.rows * self.columns * SUM_BYTES * tactic.splits
        moved = 2 * sums / self.SUMS_L2_BYTES_PER_CLOCK / self.device.clock_hz
        added = self.COMBINE_SECONDS + moved
        return estimate._replace(seconds=estimate.seconds + added, overhead=estimate.overhead + added)
