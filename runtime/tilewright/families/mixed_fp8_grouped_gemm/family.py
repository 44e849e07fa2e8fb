"""The `mixed_fp8_grouped_gemm` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.declarations.products import hopper_peak
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_fp8_gemm.family import misfit_sums
from tilewright.families.mixed_fp8_grouped_gemm import cost
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_gemm.clustered import wider
from tilewright.families.mixed_grouped_gemm.clustered import Groups
from tilewright.selection.family import Family


class _MixedFp8Grouped(Groups[Problem], Family[Problem]):
    name = "mixed_fp8_grouped_gemm"
    problem = Problem
    decisive = ("a", "d", "weight_format")
    estimator = staticmethod(cost.estimator)
    peak = staticmethod(hopper_peak)
    wider = staticmethod(wider)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return misfit_sums(record, kind)


FAMILY = _MixedFp8Grouped()
