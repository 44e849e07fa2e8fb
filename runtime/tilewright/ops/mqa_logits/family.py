"""The `mqa_logits` family as selection sees it."""

from typing import Any

from tilewright.device import DeviceProperties
from tilewright.ops.common.family import Family
from tilewright.ops.common.products import hopper_rate
from tilewright.ops.common.tactics import MAX_SPLITS, Tactic, in_parts, misfit_settings
from tilewright.ops.mqa_logits.cost import MULTIPLIED_BITS, TILE, estimator
from tilewright.ops.mqa_logits.problem import Problem
from tilewright.table import KernelRecord

SPLITS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


class _MqaLogits(Family[Problem]):
    name = "mqa_logits"
    problem = Problem
    neighbour = "queries"
    decisive = Problem.kind_fields
    placement = ("clean", "columns", "per_token", "page", "cache_pages", "table_pages", "blocks")
    estimator = staticmethod(estimator)

    def peak(self, kind: Any, device: DeviceProperties) -> float | None:
        return hopper_rate(MULTIPLIED_BITS[kind.q], device)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return misfit_settings(tactic, ("splits",) if record.config["form"] == "ragged" else ())

    def candidates(self, record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
        most = min(MAX_SPLITS, -(-problem.keys // TILE)) if problem.form == "ragged" else 1  # parts of keys
        return in_parts(record.name, SPLITS, most)


FAMILY = _MqaLogits()
