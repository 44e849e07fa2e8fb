"""Learns what `mixed_grouped_gemm`'s cost models leave unexplained (families/mixed_grouped_gemm/learnt.py).

    python -m benchmarks.fit.learn_experts_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_experts_model --write    # learns from all problems, and writes the trees
    python -m benchmarks.fit.learn_experts_model --thin RAW.jsonl ...    # the committed file of times

Times are those that expert_times.py writes (lessons.py says how trees learn from them). Needs numpy, and a
minute of a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.fit.packed_lessons import Course

from tilewright.families.mixed_grouped_gemm import learnt
from tilewright.families.mixed_grouped_gemm.problem import Problem


def problem_of(row: Mapping[str, Any]) -> Problem:
    """The problem of a line of the file."""
    return Problem(
        row["tokens"] * row["chosen"], row["n"], row["k"], row["experts"],
        weight_format=row["format"], activation=row["activation"],
    )  # fmt: skip


COURSE = Course(
    family="mixed_grouped_gemm",
    learnt=learnt,
    data=Path(__file__).parents[2] / "tests/runtime/data/h200_expert_times.jsonl.bz2",
    fields=("format", "tokens", "chosen", "experts", "n", "k", "activation"),
    problem_of=problem_of,
    measures=1,
    microseconds=lambda measured: measured[0],
    bands=((1, 16), (17, 64), (65, 256), (257, 1024), (1025, 4096), (4097, 1 << 20)),
)

if __name__ == "__main__":
    COURSE.main(__doc__)
