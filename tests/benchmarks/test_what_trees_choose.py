"""How well the trees that serve choose among the timed tactics of the problems that taught them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("numpy")

from benchmarks.fit import learn_experts_model, learn_grouped_model, learn_mixed_model, lessons

from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry
from tilewright.selection.corrections import Corrections


class Choice(NamedTuple):
    """A family's choice, and its bounds."""

    family: str
    data: Path
    lesson: Callable[[dict[str, Any], Mapping[str, KernelRecord]], lessons.Lesson | None]
    corrections: Corrections
    mean: float  # of the first tactic's time over the fastest's, in geomean
    beyond: float  # share of problems whose first tactic takes more than 1.05 times as long


def packed(course: Any, mean: float, beyond: float) -> Choice:
    """The choice of a family of packed weights."""
    return Choice(course.family, course.data, course.lesson, course.learnt.CORRECTIONS, mean, beyond)


CHOICES = (
    Choice(
        "grouped_gemm", learn_grouped_model.DATA, learn_grouped_model.lesson,
        learn_grouped_model.learnt.CORRECTIONS, mean=1.008, beyond=0.02,
    ),
    packed(learn_mixed_model.COURSE, mean=1.008, beyond=0.03),
    packed(learn_experts_model.COURSE, mean=1.007, beyond=0.035),
)  # fmt: skip


def loss(lesson: lessons.Lesson, corrections: Corrections) -> float:
    """The time of the first tactic over that of the fastest."""
    rows = [dict(zip(lesson.names, row, strict=True)) for row in lesson.features.tolist()]
    pairs = zip(lesson.estimates, corrections.factors(rows), strict=True)
    estimates = [estimate + math.log(factor) for estimate, factor in pairs]
    first = estimates.index(min(estimates))
    return math.exp(lesson.times[first] - lesson.fastest)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.family)
def test_the_first_is_nearly_the_fastest(choice: Choice) -> None:
    """Scaled products count if they were timed with forms, as kernels run today."""
    records = {record.name: record for record in Registry().kernels(choice.family)}
    rows = [row for row in lessons.read(choice.data) if row.get("forms", choice.family != "grouped_gemm")]
    taught = [lesson for row in rows[::3] if (lesson := choice.lesson(row, records))]
    losses = [loss(lesson, choice.corrections) for lesson in taught]
    assert len(losses) > 190
    assert math.exp(statistics.fmean(map(math.log, losses))) < choice.mean
    assert statistics.fmean(each > 1.05 for each in losses) < choice.beyond
