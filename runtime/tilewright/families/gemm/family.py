"""The `gemm` family as selection sees it."""

from __future__ import annotations

from tilewright.declarations.products import hopper_peak
from tilewright.declarations.tactics import rearranged
from tilewright.families.gemm.mainloops import kernels_of
from tilewright.families.gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily


class _Gemm(CompositeFamily[Problem]):
    name = "gemm"
    problem = Problem
    decisive = ("a", "b", "d", "layout")
    layouts = ("layout",)
    variants = staticmethod(rearranged)
    peak = staticmethod(hopper_peak)
    kernels = staticmethod(kernels_of)


FAMILY = _Gemm()
