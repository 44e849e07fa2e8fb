"""Programs that teach the trees of packed weights from the committed times of a family.

A line of these times has a problem's fields, and under `us` for each tactic its microseconds in one or more
measures. lessons.py says how trees learn from them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from benchmarks.fit import boosting
from benchmarks.fit.lessons import FAR, Lesson, lesson_of, report_choice, run, teach, write_times

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic

SIZE = boosting.Size(leaves=31)


class Course(NamedTuple):
    """How a family's times are read, and what of them is kept."""

    family: str
    learnt: ModuleType  # of the family: the kernels of its cost model, their features, its trees
    data: Path  # the committed times
    fields: tuple[str, ...]  # of a line, which say the problem
    problem_of: Callable[[Mapping[str, Any]], Any]
    measures: int  # of a tactic's numbers, those that count; the others are the model's
    microseconds: Callable[[Sequence[Any]], float]  # the time that counts, from a tactic's measures
    bands: Sequence[tuple[int, int]]  # of rows, in reports

    def lesson(self, row: Mapping[str, Any], records: Mapping[str, KernelRecord]) -> Lesson | None:
        """A problem's tactics of kernels that are committed; None if there are none."""
        problem = self.problem_of(row)
        seconds = {
            tactic: self._time(numbers) * 1e-6
            for text, numbers in row["us"].items()
            if (tactic := Tactic.parse(text)).kernel in records
        }
        return lesson_of(
            problem, row["format"], seconds,
            lambda name: self.learnt.kernel_of(records[name], problem, H200), self.learnt.features,
        )  # fmt: skip

    def thin(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes the committed times: the tactics of each problem that teach."""
        write_times(self.data, map(self.thinned, rows))

    def thinned(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the committed times keep of a line."""
        limit = FAR * min(map(self._time, row["us"].values()))
        us = {
            tactic: numbers[: self.measures]
            for tactic, numbers in row["us"].items()
            if self._time(numbers) < limit
        }
        return {name: row[name] for name in self.fields} | {"us": us}

    def _time(self, numbers: Sequence[float | None]) -> float:
        return self.microseconds(numbers[: self.measures])

    def main(self, doc: str | None) -> None:
        """The command line of the family's program."""
        report = functools.partial(report_choice, bands=self.bands)
        taught = functools.partial(teach, self.learnt.CORRECTIONS, report=report, size=SIZE)
        run(doc, self.family, self.data, lesson=self.lesson, thin=self.thin, taught=taught)
