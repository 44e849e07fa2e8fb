"""The `mixed_gemm` family as selection sees it."""

from __future__ import annotations

from tilewright.declarations.products import hopper_peak
from tilewright.families.mixed_gemm.clustered import wider
from tilewright.families.mixed_gemm.mainloops import kernels_of
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily


class _Mixed(CompositeFamily[Problem]):
    name = "mixed_gemm"
    problem = Problem
    decisive = ("a", "weight_format")
    kernels = staticmethod(kernels_of)
    peak = staticmethod(hopper_peak)
    wider = staticmethod(wider)


FAMILY = _Mixed()
