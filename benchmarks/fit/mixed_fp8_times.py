"""Times tactics of `mixed_fp8_gemm` and `mixed_fp8_grouped_gemm`, to which their cost models are fitted
(fit_mixed_fp8_model.py).

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.mixed_fp8_times --seed 1 --seconds 60 --output fp8_times.jsonl

Problems are drawn at random: products and products of experts in turn; INT4 in groups of 128, MXFP4, and
MXFP4 with `fast_accum`. Of each problem the tactics are timed that the model puts near its first, and the two
best of each built kernel. Weights are taken in turn, and other memory is read before each sample, so that L2
holds none of them. A line of the file is a problem: for each tactic the microseconds of a launch, and those
by the model.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import asdict
from types import ModuleType
from typing import Any, NamedTuple

import torch
from benchmarks.lib import tactic_times
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.tactic_times import Timer, candidates

from tilewright.families.mixed_fp8_gemm import measuring as dense_measuring
from tilewright.families.mixed_fp8_gemm.family import FAMILY as DENSE_FAMILY
from tilewright.families.mixed_fp8_gemm.problem import Problem as Dense
from tilewright.families.mixed_fp8_grouped_gemm import measuring as experts_measuring
from tilewright.families.mixed_fp8_grouped_gemm.family import FAMILY as EXPERTS_FAMILY
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Experts
from tilewright.tools.measuring import copies

KINDS = (
    {"weight_format": "int4_g128"},
    {"weight_format": "mxfp4"},
    {"weight_format": "mxfp4", "fast_accum": True},
)
# The least and the most rows, and how many of four problems have at most that number.
ROWS = ((1, 128, 1), (129, 1024, 3), (1025, 8192, 4))
# n, k, experts, and experts that a token chooses, of layers of models.
LAYERS = (
    (4096, 4096, 8, 2), (28672, 4096, 8, 2), (4096, 14336, 8, 2), (5760, 2880, 32, 4), (2880, 2880, 32, 4),
    (4096, 2048, 128, 8), (2048, 768, 128, 8), (4096, 7168, 32, 4), (7168, 2048, 64, 6), (1536, 2048, 64, 8),
)  # fmt: skip
MOST_ELEMENTS, MOST_PRODUCTS = 5e8, 6e11  # of a weight; of a problem
SETS = 3  # of operands


class Side(NamedTuple):
    """A family's parts."""

    family: Any
    measuring: ModuleType


SIDES = {
    Dense: Side(DENSE_FAMILY, dense_measuring),
    Experts: Side(EXPERTS_FAMILY, experts_measuring),
}


def dense(draw: random.Random, kind: dict[str, Any]) -> Dense:
    """A product."""
    share = draw.randrange(4)
    least, most = next((least, most) for least, most, through in ROWS if share < through)
    n, k = log_uniform(draw, 1024, 28672, 128), log_uniform(draw, 1024, 28672, 128)
    return Dense(log_uniform(draw, least, most), n, k, a_scale=True, **kind)


def experts(draw: random.Random, kind: dict[str, Any]) -> Experts:
    """A layer's product for a random number of tokens."""
    n, k, count, chosen = draw.choice(LAYERS)
    tokens = log_uniform(draw, 4, 16384)
    return Experts(tokens * chosen, n, k, count, a_scale=True, **kind)


def drawn(seed: int) -> Iterator[Dense | Experts]:
    """Random problems without end."""
    draw, number = random.Random(seed), 0
    while True:
        kind = KINDS[number // 2 % len(KINDS)]
        problem = dense(draw, kind) if number % 2 else experts(draw, kind)
        elements = problem.n * problem.k
        if elements <= MOST_ELEMENTS and problem.m * elements <= MOST_PRODUCTS:
            yield problem
            number += 1


def measured(problem: Dense | Experts, timer: Timer) -> dict[str, Any] | None:
    """A problem's line of the file; None if no kernel for it is built."""
    side = SIDES[type(problem)]
    choices = candidates(side.family, problem)
    if not choices:
        return None
    sets = copies(side.measuring.make(problem, torch.Generator("cuda").manual_seed(1)), SETS)
    times = timer.medians(
        [[functools.partial(operands.call, candidate.tactic) for operands in sets] for candidate in choices]
    )
    us = {
        str(candidate.tactic): [round(time, 3), round(candidate.estimate.seconds * 1e6, 3)]
        for candidate, time in zip(choices, times, strict=True)
    }
    return {"family": side.family.name, "problem": asdict(problem), "first": str(choices[0].tactic), "us": us}


def main() -> None:
    tactic_times.run(
        __doc__, [side.family.name for side in SIDES.values()],
        seed=1, output="fp8_times.jsonl", drawn=drawn, measured=measured,
    )  # fmt: skip


if __name__ == "__main__":
    main()
