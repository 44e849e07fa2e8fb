"""The `mixed_grouped_gemm` family as selection sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_rate
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_grouped_gemm.mainloops import kernels_of
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily


class _MixedGrouped(CompositeFamily[Problem]):
    name = "mixed_grouped_gemm"
    problem = Problem
    decisive = ("a", "weight_format")
    kernels = staticmethod(kernels_of)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return hopper_rate(16, device)

    def wider(self, tactic: Tactic) -> tuple[Tactic, ...]:
        """The tactic in clusters of eight."""
        return (replace(tactic, cluster="8x1"),)


FAMILY = _MixedGrouped()
