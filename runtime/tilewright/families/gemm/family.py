"""The `gemm` family as selection sees it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, rearranged
from tilewright.families.gemm.mainloops import kernels_of
from tilewright.families.gemm.problem import Problem
from tilewright.selection import weighing
from tilewright.selection.composite_family import CompositeFamily
from tilewright.selection.weighing import Candidate


class _Gemm(CompositeFamily[Problem]):
    name = "gemm"
    problem = Problem
    decisive = ("a", "b", "d", "layout")
    layouts = ("layout",)
    only_if_named = ({"mainloop": "mma", "arch": "sm_90a"}, {"mainloop": "cute_dsl"})
    variants = staticmethod(rearranged)
    peak = staticmethod(hopper_peak)
    kernels = staticmethod(kernels_of)

    def sweep(
        self,
        fitting: Sequence[KernelRecord],
        problem: Problem,
        values: Sequence[int],
        device: DeviceProperties,
        counts: Callable[[Tactic, KernelRecord], bool],
    ) -> Mapping[int, Candidate]:
        try:
            from tilewright.families.gemm import sweep  # noqa: PLC0415 (numpy need not be there)
        except ModuleNotFoundError:
            return {}
        possible = functools.partial(weighing.possible, self)
        return sweep.first_of_each(fitting, problem, values, device, possible=possible, counts=counts)


FAMILY = _Gemm()
