"""Clusters of CUTLASS's kernels of tcgen05, which a launch chooses."""

from __future__ import annotations

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, extents
from tilewright.selection.fitting import cluster_unit

# Clusters that selection considers, by the number that divides a kernel's cluster M (2: two SMs share an
# instruction). No side exceeds 4, because scale factors are multicast to 4 thread blocks at most.
CLUSTERS = {1: ("1x1", "1x2", "1x4"), 2: ("2x1", "2x2", "2x4", "4x1", "4x2", "4x4")}
MOST_SIDE = 4
NOT_TESTED = "its architecture was not tested: which of its kernels give equal bits is not known"
"""Why batch-invariant mode uses none of these kernels."""


def misfit_sides(cluster: str) -> str | None:
    """Why no kernel runs in clusters of this shape; None if some may."""
    if max(extents(cluster)) > MOST_SIDE:
        return f"cluster {cluster} has a side of more than {MOST_SIDE}"
    return None


def misfit(tactic: Tactic, record: KernelRecord) -> str | None:
    """Why a kernel of groups does not run in the tactic's clusters; None if it does."""
    if not tactic.cluster:
        return None
    m = extents(tactic.cluster)[0]
    reason = misfit_sides(tactic.cluster)
    if reason is None and m % cluster_unit(record)[0]:
        return f"two SMs share an MMA, so M of the cluster is even, not {m}"
    return reason


def candidates(record: KernelRecord) -> tuple[Tactic, ...]:
    """The tactics of a kernel of groups that selection estimates."""
    clusters = CLUSTERS[cluster_unit(record)[0]]
    return tuple(Tactic(record.name, cluster="" if cluster == "1x1" else cluster) for cluster in clusters)
