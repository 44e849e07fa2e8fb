"""Learns what `mixed_grouped_gemm`'s cost models leave unexplained (families/mixed_grouped_gemm/learnt.py).

    python -m benchmarks.fit.learn_experts_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_experts_model --write    # learns from all problems, and writes the trees
    python -m benchmarks.fit.learn_experts_model --thin RAW.jsonl ...    # the committed file of times

Times are those that expert_times.py writes (lessons.py says how trees learn from them). Needs numpy, and a
minute of a CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.fit import boosting
from benchmarks.fit.lessons import FAR, Lesson, lesson_of, report_choice, run, teach, write_times

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_grouped_gemm import learnt
from tilewright.families.mixed_grouped_gemm.problem import Problem

DATA = Path(__file__).parents[2] / "tests/runtime/data/h200_expert_times.jsonl.bz2"
SIZE = boosting.Size(leaves=31)
FIELDS = ("format", "tokens", "chosen", "experts", "n", "k", "activation")
BANDS = ((1, 16), (17, 64), (65, 256), (257, 1024), (1025, 4096), (4097, 1 << 20))  # of all rows, in reports


def problem_of(row: Mapping[str, Any]) -> Problem:
    """The problem of a row of the file."""
    return Problem(
        row["tokens"] * row["chosen"], row["n"], row["k"], row["experts"],
        weight_format=row["format"], activation=row["activation"],
    )  # fmt: skip


def lesson(row: Mapping[str, Any], records: Mapping[str, KernelRecord]) -> Lesson | None:
    """A problem's tactics of kernels that are committed; None if there are none."""
    problem = problem_of(row)
    seconds = {
        tactic: times[0] * 1e-6
        for text, times in row["us"].items()
        if (tactic := Tactic.parse(text)).kernel in records
    }
    return lesson_of(
        problem, row["format"], seconds, lambda name: learnt.kernel_of(records[name], problem, H200),
        learnt.features,
    )  # fmt: skip


def taught_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the committed file keeps of a problem: the tactics that teach."""
    limit = FAR * min(times[0] for times in row["us"].values())
    us = {tactic: times[:1] for tactic, times in row["us"].items() if times[0] < limit}
    return {name: row[name] for name in FIELDS} | {"us": us}


def thin(rows: Iterable[dict[str, Any]]) -> None:
    """Writes the committed file."""
    write_times(DATA, map(taught_of, rows))


def main() -> None:
    report = functools.partial(report_choice, bands=BANDS)
    taught = functools.partial(teach, learnt.CORRECTIONS, report=report, size=SIZE)
    run(__doc__, "mixed_grouped_gemm", DATA, lesson=lesson, thin=thin, taught=taught)


if __name__ == "__main__":
    main()
