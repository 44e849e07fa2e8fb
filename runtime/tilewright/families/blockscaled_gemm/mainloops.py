"""For CUTLASS's kernels on Blackwell, ours of mma.sync there and ours on Hopper: the problems that they
compute, and their tactics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.architectures import table
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import contiguous_extents
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import MATRIX_SETTINGS, Tactic, in_parts
from tilewright.families.blockscaled_gemm.cost_hopper import Hopper as HopperModel
from tilewright.families.blockscaled_gemm.cost_mma import Mma as MmaModel
from tilewright.families.blockscaled_gemm.cost_sm120 import Sm120
from tilewright.families.blockscaled_gemm.cost_tcgen05 import Tcgen05
from tilewright.families.blockscaled_gemm.problem import BLOCK, Problem
from tilewright.selection import cluster_splits, fitting, memory_splits
from tilewright.selection.estimates import Estimate
from tilewright.selection.kernels import Kernels
from tilewright.selection.tcgen05_clusters import CLUSTERS, NOT_TESTED, misfit_sides

_MODELS: dict[str, type[HopperModel | Tcgen05 | Sm120]] = {
    table.WGMMA.instruction: HopperModel,
    table.TCGEN05.instruction: Tcgen05,
    table.MMA_SYNC.instruction: Sm120,
}


def model_of(architecture: table.Architecture | None) -> type[HopperModel | Tcgen05 | Sm120] | None:
    """The cost model of the kernels for an architecture; None if there is none."""
    return None if architecture is None else _MODELS.get(architecture.tensor_core.instruction)


class Mainloop(Kernels[Problem]):
    """The part that all kinds of kernels share."""

    settings: tuple[str, ...] = MATRIX_SETTINGS

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        if kind.c and record.config["c"] == "none":
            return "it adds no C"
        if kind.bias and not record.config.get("bias", False):
            return "it adds no bias"
        if kind.activation != "none" and record.config.get("activation", "none") == "none":
            return f"it applies no {kind.activation}"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        extents = contiguous_extents(problem, "tn") | ({"c": problem.n} if problem.c else {})
        lie = {matrix: getattr(problem.alignment, matrix) for matrix in extents}
        return fitting.misfit_contiguous(record, extents) or fitting.misfit_alignment(record, lie)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or fitting.misfit_cluster(tactic, record)
        for shape in filter(None, (tactic.cluster, tactic.fallback)):
            reason = reason or misfit_sides(shape)
        return reason

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel can add a C or a bias, or apply an activation, that the problem does not
        have."""
        plain = not problem.bias and problem.activation == "none"
        return (record.config["c"] != "none" and not problem.c) or (
            record.config.get("bias", False) and plain
        )

    def estimator(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The model that ranks tactics; it assumes a cold L2."""
        architecture = table.find_target(record.arch)
        model = None if architecture is None else model_of(architecture)
        return None if model is None else model(record, problem, device).weigh


class Hopper(Mainloop):
    """Our kernels, which decode operands to 16 bits. Each thread block of a cluster sums a range of k, and
    the cluster adds these sums through its shared memory."""

    SPLITS = (1, 2, 4, 8)
    # The limit of a grid along y and z; each tile has a thread block (can_implement of
    # tilewright/blockscaled_gemm/sm90/kernel.hpp).
    MOST_BLOCKS = 65535

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if reason := super().misfit_extents(record, problem):
            return reason
        down, across = fitting.own_tiles(record, problem.m, problem.n)
        in_batch = problem.batch * self.SPLITS[-1]
        for what, blocks in (("m", across), ("n", down), ("the batch", in_batch)):  # operands are swapped
            if blocks > self.MOST_BLOCKS:
                return f"{what} needs {blocks} thread blocks; at most {self.MOST_BLOCKS} are possible"
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        if tactic.splits not in self.SPLITS or tactic.decomposition == "stream_k":
            return f"it splits k over a cluster, in {', '.join(map(str, self.SPLITS))} parts"
        return super().misfit_arguments(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """Without splits, all kernels of a pair of types add products along k in one order."""
        return fitting.misfit_invariant_split(tactic)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """All splits that give each range at least one tile of k."""
        k_tiles = -(-problem.k // record.config["tile"][2])
        return in_parts(record.name, self.SPLITS, min(k_tiles, self.SPLITS[-1]))


class Blackwell(Mainloop):
    """CUTLASS's kernels. A cluster is fixed at compile time or chosen by a launch."""

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        reason = super().misfit_extents(record, problem)
        if reason or not problem.quantizes:
            return reason
        if problem.n % BLOCK[problem.d]:
            return f"n is {problem.n}, not a multiple of the {BLOCK[problem.d]} that share a scale of D"
        # CUTLASS's epilogue reads a single alpha before the previous kernel ends. It does not if there is an
        # alpha for each matrix of a batch (tilewright/blockscaled_gemm/blackwell.hpp).
        if problem.batch > 1:
            return f"its epilogue quantises one matrix, not a batch of {problem.batch}"
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return fitting.misfit_splits(tactic, record) or super().misfit_arguments(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return NOT_TESTED

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        split = fitting.splittings(record, problem.k)
        if record.config["cluster"] != "dynamic":
            return split
        return _clustered(split, fitting.cluster_unit(record)[0])


class Mma(Mainloop):
    """Our kernels of mma.sync (tilewright/blockscaled_gemm/mma_kernel.hpp): without clusters; a second kernel
    adds up a split k from memory."""

    settings = ("raster", "swizzle", "splits", "decomposition")

    def estimator(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        return MmaModel(record, problem, device).weigh

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        return _can_activate_what_has_none(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return memory_splits.misfit_decomposition(tactic) or super().misfit_arguments(tactic, record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return NOT_TESTED

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return memory_splits.in_one_wave(record, problem, device)


class InCuteDsl(Blackwell):
    """Our kernels in CuTe-DSL (blockscaled_gemm/tcgen05_program.py). Clusters are compiled in, except those
    of thread blocks that share a tile along k. Kernels that do not swap operands run only if a call names one
    (`only_if_named` of the family)."""

    settings = ("raster", "swizzle", "splits")
    LEAST_OF_MANY = 64  # columns of a tile that may begin within 128 whose scale factors lie together

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        columns = record.config["tile"][1]
        if columns < self.LEAST_OF_MANY and problem.m > columns:
            return f"its tile has {columns} columns, for at most as many rows of A, not {problem.m}"
        return super().misfit_extents(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return Mainloop.misfit_arguments(self, tactic, record) or cluster_splits.misfit(tactic, record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return cluster_splits.misfit_device(tactic, device)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return cluster_splits.in_one_wave(record, problem, device)

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        return _can_activate_what_has_none(record, problem)


def _can_activate_what_has_none(record: KernelRecord, problem: Problem) -> bool:
    """Whether the kernel can apply an activation although the problem has none. A launch tells these kernels
    whether there are a C and a bias."""
    return record.config.get("activation", "none") != "none" and problem.activation == "none"


@functools.lru_cache(maxsize=4096)
def _clustered(tactics: tuple[Tactic, ...], multiple: int) -> tuple[Tactic, ...]:
    least = CLUSTERS[multiple][0]
    return tuple(
        replace(tactic, cluster=cluster, fallback="" if cluster == least else least)
        for tactic in tactics
        for cluster in CLUSTERS[multiple]
    )


HOPPER, BLACKWELL, MMA, IN_CUTE_DSL = Hopper(), Blackwell(), Mma(), InCuteDsl()


def is_hopper(record: KernelRecord) -> bool:
    return table.has_tensor_core(record.arch, table.WGMMA)


def kernels_of(record: KernelRecord) -> Mainloop:
    """A kernel's mainloop."""
    if record.config.get("mainloop") == "mma":  # absent in a row that no table filled
        return MMA
    if record.config.get("mainloop") == "tcgen05":
        return IN_CUTE_DSL
    return HOPPER if is_hopper(record) else BLACKWELL
