"""The `blockscaled_gemm` family as selection sees it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm import hopper
from tilewright.ops.blockscaled_gemm.cost_hopper import Hopper
from tilewright.ops.blockscaled_gemm.cost_sm120 import Sm120
from tilewright.ops.blockscaled_gemm.cost_tcgen05 import Tcgen05
from tilewright.ops.blockscaled_gemm.hopper import is_hopper
from tilewright.ops.blockscaled_gemm.problem import BLOCK, Problem
from tilewright.ops.blockscaled_gemm.words import WORDS
from tilewright.ops.common import fitting
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import MATRIX_SETTINGS, Tactic, misfit_settings, rearranged
from tilewright.table import KernelRecord

# Clusters that selection weighs, by the M that a kernel's clusters are multiples of (2: two SMs share an
# instruction). Sides beyond 4 no block-scaled kernel takes: scale factors are multicast to 4 thread blocks.
CLUSTERS = {1: ("1x1", "1x2", "1x4"), 2: ("2x1", "2x2", "2x4", "4x1", "4x2", "4x4")}
MOST_CLUSTER_SIDE = 4
# By the major number of a GPU's capability.
MODELS: dict[int, type[Hopper | Tcgen05 | Sm120]] = {9: Hopper, 10: Tcgen05, 11: Tcgen05, 12: Sm120}


@functools.lru_cache(maxsize=4096)
def _clustered(tactics: tuple[Tactic, ...], multiple: int) -> tuple[Tactic, ...]:
    least = CLUSTERS[multiple][0]
    return tuple(
        replace(tactic, cluster=cluster, fallback="" if cluster == least else least)
        for tactic in tactics
        for cluster in CLUSTERS[multiple]
    )


class _Blockscaled(Family[Problem]):
    words = WORDS
    decisive = ("a", "b", "d")
    variants = staticmethod(rearranged)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return "it adds no C" if kind.c and record.config["c"] == "none" else None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        extents = problem.contiguous_extents()
        lie = {matrix: getattr(problem.alignment, matrix) for matrix in extents}
        reason = fitting.misfit_contiguous(record, extents) or fitting.misfit_alignment(record, lie)
        if reason is not None:
            return reason
        if is_hopper(record):
            return hopper.misfit_extents(record, problem)
        if problem.quantizes:
            if problem.n % BLOCK[problem.d]:
                return f"n is {problem.n}, not a multiple of the {BLOCK[problem.d]} that share a scale of D"
            # CUTLASS's epilogue has one alpha, which it reads ahead of the previous kernel's end unless it is
            # told that there is one a batch (tilewright/blockscaled_gemm/blackwell.hpp).
            if problem.batch > 1:
                return f"its epilogue quantises one matrix, not a batch of {problem.batch}"
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        splits = hopper.misfit_splits(tactic) if is_hopper(record) else fitting.misfit_splits(tactic, record)
        reason = misfit_settings(tactic, MATRIX_SETTINGS) or splits or fitting.misfit_cluster(tactic, record)
        for shape in (tactic.cluster, tactic.fallback):
            if reason is None and any(int(side) > MOST_CLUSTER_SIDE for side in shape.split("x") if side):
                reason = f"cluster {shape} has a side of more than {MOST_CLUSTER_SIDE}"
        return reason

    def candidates(self, record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
        if is_hopper(record):
            return hopper.candidates(record, problem)
        split = fitting.splittings(record, problem.k)
        if record.config["cluster"] != "dynamic":
            return split
        return _clustered(split, fitting.cluster_unit(record)[0])

    def idle(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel is ready for a C that the problem has not."""
        return record.config["c"] != "none" and not problem.c

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        known = MODELS.get(device.capability[0])
        return None if known is None else known.peak(kind, device)

    def estimator(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """They rank tactics, for launches that find L2 cold."""
        known = MODELS.get(int(record.arch[3:].rstrip("af")) // 10)
        return None if known is None else known(record, problem, device).weigh


FAMILY = _Blockscaled()
