"""Learns what `grouped_gemm`'s cost model leaves unexplained on cold code (families/grouped_gemm/learnt.py).

    python -m benchmarks.fit.learn_grouped_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_grouped_model --write    # learns from all problems, and writes the trees
    python -m benchmarks.fit.learn_grouped_model --thin RAW.jsonl ...    # the committed file of times

Times are those that cold_times.py writes (lessons.py says how trees learn from them): seeds 21 to 25, 27,
28, 31, 51, 52, 102 and 103, and small products along k of 104 to 106. Of seed 21 those count that were
taken in turn; the others were taken without the other kernels' own time beside each, and were off by up
to 2 us. Times that were taken since kernels have forms teach several times each, and are reported by
themselves, too. Warm times, which seeds from 24 have, too, do not teach: trees that learnt from the mean of
both chose no better on warm code, and worse on cold code. Needs numpy, and a minute of a CPU.
"""

from __future__ import annotations

import bz2
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmarks.fit import boosting
from benchmarks.fit.lessons import FAR, Lesson, columns, report_choice, run, teach

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm import learnt
from tilewright.families.grouped_gemm.cost import Kernel
from tilewright.families.grouped_gemm.problem import Problem

DATA = Path(__file__).parents[2] / "tests/runtime/data/h200_cold_grouped_times.jsonl.bz2"
_SCALED = "_bf16_1x128_128x128_"  # in the names of kernels with forms
SIZE = boosting.Size(trees=400, leaves=31, rate=0.05)  # twice the leaves or trees chose no better
LEAST_MICROSECONDS = 1.0  # of a launch, below which a time is noise of what was subtracted
# Microseconds by which cold launches of kernels with scales of 128x128, without clusters and splits, have
# become shorter since these kernels have forms (grouped_gemm/form.hpp): medians of the same draws before and
# after (benchmarks/results/scaled_start.md). Rows of times that were taken since then have the field `forms`.
SOONER = {"scaled": 0.8, "contiguous_fp8": 0.55, "masked_fp8": 0.75}
# How often a problem teaches that was timed with forms. The others' times are a correction away from those of
# today's kernels. With 6, choices were no better.
FORMS_COUNT = 3


def lesson(row: dict[str, Any], records: Mapping[str, KernelRecord]) -> Lesson:
    """A problem's tactics of kernels that are committed, by their times on cold code."""
    problem = Problem(**row["problem"])
    problem = replace(problem, expected_m=row.get("expected_m", 0))
    times = counted(row["us"], row["turns"])
    if not row.get("forms"):
        times = with_forms(times, row["kind"])
    seconds = {
        tactic: us * 1e-6 for text, us in times.items() if (tactic := Tactic.parse(text)).kernel in records
    }
    kernels = {name: Kernel(records[name], problem, H200) for name in {tactic.kernel for tactic in seconds}}
    shape = (problem.m, problem.n, problem.k)
    learnable = columns(seconds, kernels, learnt.features)
    fastest = math.log(min(times.values()) * 1e-6)
    count = FORMS_COUNT if row.get("forms") else 1
    return Lesson(shape, row["kind"], *learnable, fastest, math.nan, count)


def counted(us: dict[str, float], turns: dict[str, float]) -> dict[str, float]:
    """Microseconds by tactic. Times in turn count before others, and no other is taken for faster than the
    fastest in turn."""
    fastest = min(turns.values())
    return {text: max(time, fastest) for text, time in us.items() if time >= LEAST_MICROSECONDS} | turns


def with_forms(us: dict[str, float], kind: str) -> dict[str, float]:
    """The times that tactics take since kernels have forms, of times from before."""
    sooner = SOONER.get(kind, 0.0)
    return {text: time - sooner * (_SCALED in text and "@" not in text) for text, time in us.items()}


def thin(rows: Iterable[dict[str, Any]]) -> None:
    """Writes the committed file: of each problem the tactics that teach, and fields that differ."""
    defaults = {field.name: field.default for field in fields(Problem)}
    with bz2.open(DATA, "wt", newline="\n") as file:
        for row in rows:
            problem = {name: value for name, value in row["problem"].items() if value != defaults[name]}
            screened = {"us": teaching(row["us"], row["turns"])}
            if "warm_us" in row:
                screened["warm_us"] = teaching(row["warm_us"], row["warm_turns"])
            file.write(json.dumps({**row, "problem": problem, **screened}, separators=(",", ":")) + "\n")


def teaching(us: dict[str, float], turns: dict[str, float]) -> dict[str, float]:
    """The times that teach, and that were not taken in turn."""
    limit = FAR * min(turns.values())
    return {text: time for text, time in us.items() if time < limit and text not in turns}


def report(name: str, lessons: Sequence[Lesson], losses: Sequence[float]) -> None:
    """Prints how well is chosen for all problems, then for those that were timed with forms."""
    report_choice(name, lessons, losses, banded="scaled")
    pairs = [pair for pair in zip(lessons, losses, strict=True) if pair[0].count == FORMS_COUNT]
    report_choice(f"{name}, timed with forms", *zip(*pairs, strict=True), banded="scaled")


def main() -> None:
    taught = functools.partial(teach, learnt.CORRECTIONS, report=report, size=SIZE)
    run(__doc__, "grouped_gemm", DATA, lesson=lesson, thin=thin, taught=taught)


if __name__ == "__main__":
    main()
