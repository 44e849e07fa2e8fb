"""For each mainloop of `mixed_grouped_gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm.gated import PackedKernels
from tilewright.families.mixed_grouped_gemm import cost, cost_stream, learnt
from tilewright.families.mixed_grouped_gemm.clustered import Groups
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.kernels import Kernels


class Wgmma(PackedKernels[Problem], Groups[Problem]):
    """Kernels for any number of rows (tilewright/mixed_grouped_gemm/mixed_grouped_gemm.hpp)."""

    estimator = staticmethod(cost.Wgmma.estimator)
    refine = staticmethod(learnt.refine)


class Stream(Wgmma):
    """Kernels for few rows of a group (tilewright/mixed_grouped_gemm/stream.hpp), without clusters."""

    settings = ("raster", "swizzle")
    estimator = staticmethod(cost_stream.Stream.estimator)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return "it divides k among warps, and kernels for more rows add products in another order"

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return (Tactic(record.name),)


MAINLOOPS = {"wgmma": Wgmma(), "stream": Stream()}


def kernels_of(record: KernelRecord) -> Kernels[Problem]:
    """The mainloop of a kernel."""
    return MAINLOOPS[record.config["mainloop"]]
