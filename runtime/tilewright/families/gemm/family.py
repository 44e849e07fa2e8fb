"""The `gemm` family as selection sees it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import TCGEN05, of_capability
from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import rearranged
from tilewright.families.gemm.cost_tcgen05 import Tcgen05
from tilewright.families.gemm.mainloops import kernels_of
from tilewright.families.gemm.problem import Problem
from tilewright.selection import weighing
from tilewright.selection.composite_family import CompositeFamily
from tilewright.selection.weighing import Candidate

# Added to the reasons why no kernel computes a problem with a gated activation.
GATED_KERNELS = (
    "{0} is an epilogue of lean kernels for sm_90a, for bf16, f16 and FP8 operands, without C. Elsewhere "
    "call gemm without it, and apply it to the result."
)


class _Gemm(CompositeFamily[Problem]):
    name = "gemm"
    problem = Problem
    decisive = ("a", "b", "d", "layout")
    layouts = ("layout",)
    only_if_named = ({"mainloop": "mma", "arch": "sm_90a"}, {"mainloop": "cute_dsl", "arch": "sm_90a"})
    variants = staticmethod(rearranged)
    kernels = staticmethod(kernels_of)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        architecture = of_capability(device.capability)
        if architecture is not None and architecture.tensor_core.instruction == TCGEN05.instruction:
            return Tcgen05.peak(kind, device)
        return hopper_peak(kind, device)

    def explain(self, records: Sequence[KernelRecord], problem: Problem) -> str:
        reasons = super().explain(records, problem)
        if not problem.gated:
            return reasons
        return f"{reasons}\n  {GATED_KERNELS.format(problem.activation)}"

    def sweep(
        self,
        fitting: Sequence[KernelRecord],
        problem: Problem,
        values: Sequence[int],
        device: DeviceProperties,
        *,
        batch_invariant: bool = False,
    ) -> Mapping[int, Candidate]:
        try:
            from tilewright.families.gemm import sweep  # noqa: PLC0415 (numpy need not be there)
        except ModuleNotFoundError:
            return {}
        possible = functools.partial(weighing.possible, self, batch_invariant=batch_invariant)
        return sweep.first_of_each(fitting, problem, values, device, possible=possible)


FAMILY = _Gemm()
