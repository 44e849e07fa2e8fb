"""The `mixed_fp8_grouped_gemm` family as selection sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_rate
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm.family import misfit_sums
from tilewright.families.mixed_fp8_grouped_gemm import cost
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_grouped_gemm.mainloops import Wgmma
from tilewright.selection.composite_family import CompositeFamily
from tilewright.selection.kernels import Kernels


class _Fp8Kernels(Wgmma):
    """Tactics are those of `mixed_grouped_gemm`."""

    estimator: Any = staticmethod(cost.estimator)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Any) -> str | None:
        """All kernels of one group of warpgroups add products along k in one order."""
        return super().misfit_invariant(tactic, record, problem)


_KERNELS: Any = _Fp8Kernels()


def _kernels_of(record: KernelRecord) -> Kernels[Problem]:
    kernels: Kernels[Problem] = _KERNELS
    return kernels


class _MixedFp8Grouped(CompositeFamily[Problem]):
    name = "mixed_fp8_grouped_gemm"
    problem = Problem
    decisive = ("a", "d", "weight_format")
    kernels = staticmethod(_kernels_of)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return hopper_rate(8, device)

    def wider(self, tactic: Tactic) -> tuple[Tactic, ...]:
        """The tactic in clusters of eight."""
        return (replace(tactic, cluster="8x1"),)


FAMILY = _MixedFp8Grouped()
