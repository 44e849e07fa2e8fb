"""The `mqa_logits` family as selection sees it."""

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import hopper_rate
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import MAX_SPLITS, Tactic, in_parts, misfit_settings
from tilewright.families.mqa_logits.cost import TILE, WGMMA_RATES, estimator
from tilewright.families.mqa_logits.problem import Problem
from tilewright.selection.family import Family

SPLITS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


class _MqaLogits(Family[Problem]):
    name = "mqa_logits"
    problem = Problem
    neighbour = "queries"
    decisive = Problem.kind_fields
    placement = ("clean", "columns", "per_token", "page", "cache_pages", "table_pages", "blocks")
    estimator = staticmethod(estimator)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return hopper_rate(WGMMA_RATES[kind.q].bits, device)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return misfit_settings(tactic, ("splits",) if record.config["form"] == "ragged" else ())

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        most = min(MAX_SPLITS, -(-problem.keys // TILE)) if problem.form == "ragged" else 1  # parts of keys
        return in_parts(record.name, SPLITS, most)


FAMILY = _MqaLogits()
