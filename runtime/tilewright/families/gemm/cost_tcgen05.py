"""A model of kernels of tcgen05 (selection/tcgen05_model.py).

Nobody has measured one of ours. The numbers are those of CUTLASS's block-scaled kernels, whose structure ours
have, with the rates of the data sheets.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.tcgen05_model import Tcgen05Model


class Tcgen05(Tcgen05Model):
    """A kernel on a problem. Tensor memory holds the sums of two tiles of any width."""

    def sms(self, cluster: tuple[int, int]) -> int:
        """Clusters are compiled in: none fills the SMs that they leave."""
        size = cluster[0] * cluster[1]
        return max(1, self.device.sm_count // size) * size


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    return Tcgen05(record, problem, device).weigh
