"""The `grouped_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.architectures import table
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_peak
from tilewright.declarations.tactics import distinct_orders
from tilewright.families.grouped_gemm.mainloops import kernels_of
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily
from tilewright.selection.tcgen05_model import Tcgen05Model


class _Grouped(CompositeFamily[Problem]):
    name = "grouped_gemm"
    problem = Problem
    decisive = ("a", "b", "d", "scales", "layout")
    layouts = ("layout",)
    placement = ("scales_k_major", "zero_padding", "head_left", "head_gap", "head_right")
    only_if_named = ({"mainloop": "mma", "arch": "sm_90a"},)
    kernels = staticmethod(kernels_of)
    variants = staticmethod(distinct_orders)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        architecture = table.of_capability(device.capability)
        if architecture is not None and architecture.tensor_core.instruction == table.TCGEN05.instruction:
            return Tcgen05Model.peak(kind, device)
        return hopper_peak(kind, device)


FAMILY = _Grouped()
