"""The `blockscaled_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import rearranged
from tilewright.families.blockscaled_gemm.mainloops import BLACKWELL, HOPPER, MODELS, Mainloop, is_hopper
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.selection.composite_family import CompositeFamily


class _Blockscaled(CompositeFamily[Problem]):
    name = "blockscaled_gemm"
    problem = Problem
    decisive = ("a", "b", "d")
    variants = staticmethod(rearranged)

    def kernels(self, record: KernelRecord) -> Mainloop:
        return HOPPER if is_hopper(record) else BLACKWELL

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        known = MODELS.get(device.capability[0])
        return None if known is None else known.peak(kind, device)


FAMILY = _Blockscaled()
