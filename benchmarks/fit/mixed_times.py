"""Times tactics of `mixed_gemm` on problems drawn at random, which teach its choice (learn_mixed_model.py).

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.mixed_times --seed 41 --seconds 100 --output mixed_times.jsonl

Of each problem the tactics are timed that the model puts near its first, and the two best of each built
kernel: launched one after another, and each behind a small kernel that writes the activations, whose own time
is subtracted. Weights are taken in turn, and other memory is read before each sample, so that L2 holds none
of them. A line of the file is a problem: for each tactic the microseconds of a launch in a row, of a launch
behind the other kernel (up to 256 rows), and of the model.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from benchmarks.lib import tactic_times
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.tactic_times import Timer, candidates

from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.selection.weighing import Candidate
from tilewright.tools.measuring import copies

FORMATS = ("int4_g128", "mxfp4", "nvfp4", "int4_g128", "mxfp4", "nvfp4", "int8_g128", "e4m3_g128")  # in turn
# The least and the most rows, and the share of problems that have at most that number.
ROWS = ((1, 8, 0.2), (9, 16, 0.42), (17, 64, 0.75), (65, 256, 0.92), (257, 4096, 1.0))
BEHIND = 256  # rows at most: more take longer than what a kernel before costs
# [n, k] of layers of models with 7 to 70 billion weights, which are three problems of ten.
LAYERS = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (4608, 3584), (3584, 3584), (37888, 3584),
    (3584, 18944), (2560, 8192), (8192, 2048), (14336, 8192), (8192, 7168), (8192, 8192), (10240, 8192),
    (57344, 8192), (8192, 28672), (5120, 5120), (7168, 5120), (55296, 5120), (5120, 27648),
)  # fmt: skip
MOST_ELEMENTS, MOST_PRODUCTS = 5e8, 4e11  # of a weight; of a problem


def drawn(seed: int) -> Iterator[Problem]:
    """Random problems without end."""
    draw, number = random.Random(seed), 0
    while True:
        n, k = log_uniform(draw, 1024, 28672, 128), log_uniform(draw, 1024, 28672, 128)
        if draw.random() < 0.3:
            n, k = draw.choice(LAYERS)
        share = draw.random()
        least, most = next((least, most) for least, most, through in ROWS if share <= through)
        m = log_uniform(draw, least, most)
        if n * k <= MOST_ELEMENTS and m * n * k <= MOST_PRODUCTS:
            yield Problem(m, n, k, weight_format=FORMATS[number % len(FORMATS)])
            number += 1


def measured(problem: Problem, choices: Sequence[Candidate], timer: Timer) -> dict[str, Any]:
    """A problem's line of the file."""
    launches = 3 if problem.m > 1000 else 6 if problem.packed_bytes > 8e7 else 12
    sets = copies(measuring.make(problem, torch.Generator("cuda").manual_seed(1)), launches)
    source = sets[0].a.clone()

    def write(operands: Any) -> None:
        torch.mul(source, 1.0, out=operands.a)

    def both(operands: Any, candidate: Candidate) -> None:
        write(operands)
        operands.call(candidate.tactic)

    calls = [
        [functools.partial(operands.call, candidate.tactic) for operands in sets] for candidate in choices
    ]
    behind = problem.m <= BEHIND
    if behind:
        calls += [
            [functools.partial(both, operands, candidate) for operands in sets] for candidate in choices
        ]
        calls.append([functools.partial(write, operands) for operands in sets])
    times = timer.medians(calls)
    count = len(choices)
    second = [time - times[-1] for time in times[count:-1]] if behind else [None] * count
    us = {
        str(candidate.tactic): [_rounded(first), _rounded(after), _rounded(candidate.estimate.seconds * 1e6)]
        for candidate, first, after in zip(choices, times[:count], second, strict=True)
    }
    shape = {"format": problem.weight_format, "m": problem.m, "n": problem.n, "k": problem.k}
    return shape | {"first": str(choices[0].tactic), "us": us}


def _rounded(microseconds: float | None) -> float | None:
    return None if microseconds is None else round(microseconds, 3)


def main() -> None:
    tactic_times.run(
        __doc__, [FAMILY.name], seed=41, output="mixed_times.jsonl", drawn=drawn,
        measured=lambda problem, timer: measured(problem, candidates(FAMILY, problem), timer),
    )  # fmt: skip


if __name__ == "__main__":
    main()
