"""The `mixed_fp8_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm import cost
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_gemm import clustered
from tilewright.selection.composite_family import CompositeFamily
from tilewright.selection.kernels import Kernels


def misfit_sums(record: KernelRecord, kind: Any) -> str | None:
    """Why a kernel's sums are not those that a problem asks for. `fast_accum` is not among `decisive`: rows
    leave a False out, and are found by their text."""
    if record.config["fast_accum"] == kind.fast_accum:
        return None
    return "its sums stay in the tensor core" if record.config["fast_accum"] else "it promotes sums"


class _OwnTiles(clustered.Product[Problem]):
    """Kernels whose thread blocks, or clusters, have tiles of their own."""

    estimator = staticmethod(cost.estimator)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)


class _Balanced(clustered.Balanced[Problem]):
    """Kernels whose thread blocks have equal work (tilewright/mixed_fp8_gemm/balanced.hpp)."""

    estimator = staticmethod(cost.estimator)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """None where most of a tile would be empty: the model knows no times of those."""
        most = problem.m <= record.config["tile"][1] // 2
        return () if most else super().candidates(record, problem, device)


_KINDS: dict[bool, Kernels[Problem]] = {False: _OwnTiles(), True: _Balanced()}


def _kind_of(record: KernelRecord) -> Kernels[Problem]:
    return _KINDS[record.config["balanced"]]


class _MixedFp8(CompositeFamily[Problem]):
    name = "mixed_fp8_gemm"
    problem = Problem
    decisive = ("a", "d", "weight_format")
    kernels = staticmethod(_kind_of)
    peak = staticmethod(hopper_peak)
    wider = staticmethod(clustered.wider)


FAMILY = _MixedFp8()
