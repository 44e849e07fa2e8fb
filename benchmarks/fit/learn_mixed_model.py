"""Learns what `mixed_gemm`'s cost models leave unexplained (families/mixed_gemm/learnt.py).

    python -m benchmarks.fit.learn_mixed_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_mixed_model --write    # learns from all problems, and writes the trees
    python -m benchmarks.fit.learn_mixed_model --thin RAW.jsonl ...    # the committed file of times

Times are those that mixed_times.py writes (lessons.py says how trees learn from them). A tactic's time is the
geometric mean of its times in a row and behind another kernel. Needs numpy, and a minute of a CPU.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fit import boosting
from benchmarks.fit.lessons import FAR, Lesson, lesson_of, report_choice, run, teach, write_times

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import learnt
from tilewright.families.mixed_gemm.problem import Problem

DATA = Path(__file__).parents[2] / "tests/runtime/data/h200_mixed_times.jsonl.bz2"
SIZE = boosting.Size(leaves=31)
BANDS = ((1, 8), (9, 16), (17, 64), (65, 256), (257, 4096))  # of m, in reports


def seconds_of(times: Sequence[float | None]) -> float:
    """The time that counts: the mean of those in a row and behind another kernel. Some lack the second."""
    measured = [time for time in times[:2] if time is not None]
    return math.exp(statistics.fmean(map(math.log, measured))) * 1e-6


def lesson(row: dict[str, Any], records: dict[str, KernelRecord]) -> Lesson | None:
    """A problem's tactics of kernels that are committed; None if there are none."""
    problem = Problem(row["m"], row["n"], row["k"], weight_format=row["format"])
    seconds = {
        tactic: seconds_of(times)
        for text, times in row["us"].items()
        if (tactic := Tactic.parse(text)).kernel in records
    }
    return lesson_of(
        problem, row["format"], seconds, lambda name: learnt.kernel_of(records[name], problem, H200),
        learnt.features,
    )  # fmt: skip


def taught_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the committed file keeps of a problem: the tactics that teach."""
    limit = FAR * min(map(seconds_of, row["us"].values()))
    us = {tactic: times[:2] for tactic, times in row["us"].items() if seconds_of(times) < limit}
    return {name: row[name] for name in ("format", "m", "n", "k")} | {"us": us}


def thin(rows: Iterable[dict[str, Any]]) -> None:
    """Writes the committed file."""
    write_times(DATA, map(taught_of, rows))


def main() -> None:
    report = functools.partial(report_choice, bands=BANDS)
    taught = functools.partial(teach, learnt.CORRECTIONS, report=report, size=SIZE)
    run(__doc__, "mixed_gemm", DATA, lesson=lesson, thin=thin, taught=taught)


if __name__ == "__main__":
    main()
