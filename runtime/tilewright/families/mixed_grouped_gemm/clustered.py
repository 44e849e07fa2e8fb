"""Kernels of packed weights of groups in clusters whose thread blocks share activations: their tactics."""

from __future__ import annotations

from typing import TypeVar

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm.clustered import CLUSTERS, SharedActivations
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem
from tilewright.selection.fitting import in_clusters

Q = TypeVar("Q", bound=GroupedProblem)


class Groups(SharedActivations[Q]):
    """Kernels of the products of groups, whatever the type of activations."""

    def candidates(self, record: KernelRecord, problem: Q, device: DeviceProperties) -> tuple[Tactic, ...]:
        """Clusters no larger than a group's tiles along n."""
        return in_clusters(record, (-(-problem.n // record.config["tile"][0]), 1), clusters=CLUSTERS)

    def does_extra_work(self, record: KernelRecord, problem: Q) -> bool:
        """Whether a narrower tile would hold all rows of a group."""
        rows = problem.m if problem.own_rows else -(-problem.rows // problem.groups)
        return bool(rows <= record.config["tile"][1] - 8)
