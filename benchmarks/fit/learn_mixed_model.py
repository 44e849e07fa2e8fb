"""Learns what `mixed_gemm`'s cost models leave unexplained (families/mixed_gemm/learnt.py).

    python -m benchmarks.fit.learn_mixed_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_mixed_model --write    # learns from all problems, and writes the trees
    python -m benchmarks.fit.learn_mixed_model --thin RAW.jsonl ...    # the committed file of times

Times are those that mixed_times.py writes (lessons.py says how trees learn from them). A tactic's time is the
geometric mean of its times in a row and behind another kernel. Needs numpy, and a minute of a CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fit.packed_lessons import Course

from tilewright.families.mixed_gemm import learnt
from tilewright.families.mixed_gemm.problem import Problem


def problem_of(row: Mapping[str, Any]) -> Problem:
    """The problem of a line of the file."""
    return Problem(row["m"], row["n"], row["k"], weight_format=row["format"])


def mean(measured: Sequence[float | None]) -> float:
    """The mean of the times in a row and behind another kernel. Some tactics lack the second."""
    return statistics.geometric_mean(time for time in measured if time is not None)


COURSE = Course(
    family="mixed_gemm",
    learnt=learnt,
    data=Path(__file__).parents[2] / "tests/runtime/data/h200_mixed_times.jsonl.bz2",
    fields=("format", "m", "n", "k"),
    problem_of=problem_of,
    measures=2,
    microseconds=mean,
    bands=((1, 8), (9, 16), (17, 64), (65, 256), (257, 4096)),
)

if __name__ == "__main__":
    COURSE.main(__doc__)
