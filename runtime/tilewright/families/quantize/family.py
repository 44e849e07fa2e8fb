"""The `quantize` family as selection sees it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, plain
from tilewright.families.quantize.cost import estimator, resident
from tilewright.families.quantize.problem import Problem
from tilewright.selection import fitting
from tilewright.selection.family import Family


@functools.lru_cache(maxsize=4096)
def _tactics(kernel: str, variant: str, held: int) -> tuple[Tactic, ...]:
    persistent = replace(plain(kernel), blocks=held)
    return (persistent,) if variant == "tma" else (plain(kernel), persistent)


class _Quantize(Family[Problem]):
    name = "quantize"
    problem = Problem
    decisive = ("direction", "format", "x", "fusion")
    settings = ("blocks",)
    only_if_named = ({"compiler": "cute_dsl"},)
    estimator = staticmethod(estimator)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        own = record.config.get("four_over_six", "none")  # absent in a row that no table filled
        if own != kind.four_over_six:
            return f"its four_over_six is {own}, not {kind.four_over_six}"
        if kind.exact and record.config["arithmetic"] != "exact":
            return "its arithmetic is approximate, which the call does not allow"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        multiple = record.facts["k_multiple"]
        if problem.k % multiple:
            return f"k is {problem.k}, not a multiple of {multiple}"
        return fitting.misfit_alignment(record, problem.alignment._asdict())

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        if problem.fusion == "rmsnorm":
            return "kernels add up the squares of a row in different orders"
        return None

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Grids with a thread block for each task, or with the thread blocks that the GPU holds at once. The
        TMA variant fills its ring only for several tasks."""
        return _tactics(record.name, record.config["variant"], resident(record))

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel is exact although the problem does not require it."""
        return record.config["arithmetic"] == "exact" and not problem.exact


FAMILY = _Quantize()
