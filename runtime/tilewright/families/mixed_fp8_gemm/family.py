"""The `mixed_fp8_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_fp8_gemm import cost
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_gemm import clustered
from tilewright.selection.family import Family


def misfit_sums(record: KernelRecord, kind: Any) -> str | None:
    """Why a kernel's sums are not those that a problem asks for. `fast_accum` is not among `decisive`: rows
    leave a False out, and are found by their text."""
    if record.config["fast_accum"] == kind.fast_accum:
        return None
    return "its sums stay in the tensor core" if record.config["fast_accum"] else "it promotes sums"


class _MixedFp8(clustered.Product[Problem], Family[Problem]):
    name = "mixed_fp8_gemm"
    problem = Problem
    decisive = ("a", "d", "weight_format")
    estimator = staticmethod(cost.estimator)
    peak = staticmethod(hopper_peak)
    wider = staticmethod(clustered.wider)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)


FAMILY = _MixedFp8()
