"""A model of block-scaled kernels of groups on tcgen05: that of `blockscaled_gemm`, of a batch of products
with the expected rows of a group, after the kernel that lists the products.

Nobody has timed these kernels. The numbers of a product are those of kernels without groups.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.cost_tcgen05 import Tcgen05
from tilewright.families.blockscaled_gemm.problem import Problem as Batch
from tilewright.families.blockscaled_grouped_gemm.problem import Problem
from tilewright.families.grouped_gemm.cost_tcgen05 import MAPS_CLOCKS
from tilewright.selection.estimates import Estimate

# Fields that a kernel of groups has no choice of, as the model of single products reads them.
_SETTLED = {"cluster": "dynamic", "scheduler": "data_parallel", "store": "tma", "prefetch": "tma"}


def group_rows(problem: Problem) -> int:
    """The expected rows of a group."""
    return max(1, ceil(problem.rows / problem.groups))


def batch_of(problem: Problem) -> Batch:
    """The batch of products with the expected rows of a group."""
    rows = group_rows(problem)
    return Batch(rows, problem.n, problem.k, problem.groups, problem.a, problem.b, problem.d)


class Groups(Tcgen05):
    """A kernel on products of groups. It is launched twice: lists first."""

    def __init__(self, record: KernelRecord, problem: Problem, device: DeviceProperties) -> None:
        settled = record._replace(config={**record.config, **_SETTLED})
        super().__init__(settled, batch_of(problem), device)
        self.tile_clocks = MAPS_CLOCKS
        self.seconds += self.LAUNCH_SECONDS


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    return Groups(record, problem, device).weigh
