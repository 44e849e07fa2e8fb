"""The settings of a tactic that kernels of matrix products take."""

from __future__ import annotations

from tilewright.declarations.declaration import TacticStruct
from tilewright.declarations.tactics import DECOMPOSITIONS, RASTERS, REDUCTIONS, Tactic, extents


def _matrix_values(tactic: Tactic, sm_count: int) -> dict[str, int]:
    cluster, fallback = extents(tactic.cluster), extents(tactic.fallback)
    return {
        "raster": RASTERS[tactic.raster],
        "swizzle": tactic.swizzle,
        "decomposition": DECOMPOSITIONS[tactic.decomposition],
        "splits": tactic.splits,
        "reduction": REDUCTIONS[tactic.reduction],
        "cluster_m": cluster[0],
        "cluster_n": cluster[1],
        "fallback_m": fallback[0],
        "fallback_n": fallback[1],
        "sm_count": sm_count,
    }


MATRIX_TACTIC = TacticStruct(
    name="tilewright_tactic",
    header="tilewright/tactic.h",
    members=(
        "raster", "swizzle", "decomposition", "splits", "reduction",
        "cluster_m", "cluster_n", "fallback_m", "fallback_n", "sm_count",
    ),
    values=_matrix_values,
)  # fmt: skip
