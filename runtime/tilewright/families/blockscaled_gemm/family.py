"""The `blockscaled_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.architectures import table
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.tactics import rearranged
from tilewright.families.blockscaled_gemm.mainloops import kernels_of, model_of
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily


class _Blockscaled(CompositeFamily[Problem]):
    name = "blockscaled_gemm"
    problem = Problem
    decisive = ("a", "b", "d")
    variants = staticmethod(rearranged)
    kernels = staticmethod(kernels_of)
    # Others have timed CUTLASS's kernels for the same GPUs. Those in CuTe-DSL that swap operands split k over
    # a cluster, which CUTLASS's cannot: for few rows selection considers them.
    only_if_named = ({"mainloop": "tcgen05", "swap_ab": False},)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        model = model_of(table.of_capability(device.capability))
        return None if model is None else model.peak(kind, device)


FAMILY = _Blockscaled()
