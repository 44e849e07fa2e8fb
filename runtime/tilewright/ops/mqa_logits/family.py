"""The `mqa_logits` family as selection sees it."""

from __future__ import annotations

from typing import Any

from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import MAX_SPLITS, Tactic, misfit_settings
from tilewright.ops.mqa_logits.cost import TILE, estimator, peak
from tilewright.ops.mqa_logits.problem import PAGES, Problem
from tilewright.ops.mqa_logits.words import WORDS
from tilewright.table import KernelRecord

SPLITS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


class _MqaLogits(Family[Problem]):
    words = WORDS
    neighbour = "queries"
    decisive = ("form", "q", "d")
    placement = ("columns", "per_token", "page", "cache_pages", "table_pages", "blocks")
    estimator = staticmethod(estimator)
    peak = staticmethod(peak)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        heads, head_dim = record.config["heads"], record.config["head_dim"]
        fits = kind.form == "schedule" or (heads, head_dim) == (kind.heads, kind.head_dim)
        return None if fits else f"it is for {heads} heads of {head_dim}, not {kind.heads} of {kind.head_dim}"

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.form == "paged" and problem.page not in PAGES:
            return f"a page has {problem.page} keys, not {' or '.join(map(str, PAGES))}"
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return misfit_settings(tactic, ("splits",) if record.config["form"] == "ragged" else ())

    def candidates(self, record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
        """Parts of ragged keys, at least a tile each."""
        if problem.form != "ragged":
            return (Tactic(record.name),)
        most = min(MAX_SPLITS, -(-problem.keys // TILE))
        return tuple(Tactic(record.name, splits=splits) for splits in SPLITS if splits <= most)


FAMILY = _MqaLogits()
