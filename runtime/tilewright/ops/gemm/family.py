"""The `gemm` family as selection sees it."""

from __future__ import annotations

from tilewright.ops.common.composite_family import CompositeFamily
from tilewright.ops.common.products import hopper_peak
from tilewright.ops.common.tactics import rearranged
from tilewright.ops.gemm.mainloops import MAINLOOPS, Mainloop, mainloop_of
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord


class _Gemm(CompositeFamily[Problem]):
    name = "gemm"
    problem = Problem
    decisive = ("a", "b", "d", "layout")
    layouts = ("layout",)
    variants = staticmethod(rearranged)
    peak = staticmethod(hopper_peak)

    def kernels(self, record: KernelRecord) -> Mainloop:
        return MAINLOOPS[mainloop_of(record)]


FAMILY = _Gemm()
