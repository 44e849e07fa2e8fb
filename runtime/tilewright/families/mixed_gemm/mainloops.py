"""For each mainloop of `mixed_gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import clustered, cost, cost_balanced, cost_stream, learnt
from tilewright.families.mixed_gemm.gated import PackedKernels
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.selection.fitting import MOST_BLOCKS, misfit_blocks, misfit_tiles_of_k, with_splits
from tilewright.selection.kernels import Kernels


class Wgmma(PackedKernels[Problem], clustered.Product[Problem]):
    """Kernels for any number of rows (tilewright/mixed_gemm/mixed_gemm.hpp)."""

    estimator = staticmethod(cost.Wgmma.estimator)
    refine = staticmethod(learnt.refine)


class Stream(PackedKernels[Problem]):
    """Kernels for few rows (tilewright/mixed_gemm/stream.hpp)."""

    settings = ("splits",)
    estimator = staticmethod(cost_stream.Stream.estimator)
    refine = staticmethod(learnt.refine)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        rows = record.config["tile"][1]
        if problem.m > rows:
            return f"it computes {rows} rows at most, not {problem.m}"
        return super().misfit_extents(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return super().misfit_arguments(tactic, record) or misfit_blocks(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        rows = record.config["tile"][1]
        return f"it divides k among warps, and more than {rows} rows are added in another order"

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Splits that leave a unit of k to every warp of a thread block, or one thread block."""
        warps = record.facts["threads"] // 32
        most = max(1, min(MOST_BLOCKS, -(-problem.k // (record.config["tile"][2] * warps))))
        return tuple(with_splits(record.name, "", splits) for splits in range(1, most + 1))


class Balanced(clustered.Balanced[Problem], PackedKernels[Problem]):
    """Kernels whose thread blocks multiply equally many stages of k (tilewright/mixed_gemm/balanced.hpp)."""

    estimator = staticmethod(cost_balanced.Balanced.estimator)
    refine = staticmethod(learnt.refine)


MAINLOOPS = {"wgmma": Wgmma(), "stream": Stream(), "balanced": Balanced()}


def kernels_of(record: KernelRecord) -> Kernels[Problem]:
    """The mainloop of a kernel."""
    return MAINLOOPS[record.config["mainloop"]]
