"""Times tactics of `mixed_grouped_gemm` on problems drawn at random, which teach its choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.expert_times --seed 71 --seconds 100 --output expert_times.jsonl

A router chooses the experts of each token: its logits are random, and some experts are more likely than
others to an extent that is drawn, too. Of each problem the tactics are timed that the model puts near its
first, and the two best of each built kernel. Stacks and choices of experts are taken in turn, and other
memory is read before each sample, so that L2 holds none of them. A line of the file is a problem: for each
tactic the microseconds of a launch, and by the model.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from benchmarks.lib import tactic_times
from benchmarks.lib.experts import ROUTINGS, SETS, group_ends
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.tactic_times import Timer, candidates

from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.weighing import Candidate
from tilewright.tools.measuring import copies

FORMATS = ("int4_g128", "mxfp4", "nvfp4", "int4_g32")  # in turn
# [experts, chosen, n of gate and up, k] of models, which are half of the problems; n and k may change places.
MODELS = (
    (8, 2, 28672, 4096), (8, 2, 32768, 6144), (16, 2, 12800, 4096), (16, 4, 21504, 6144), (32, 4, 5760, 2880),
    (128, 4, 5760, 2880), (64, 6, 2816, 2048), (60, 4, 2816, 2048), (128, 8, 1536, 2048),
    (128, 8, 3072, 4096), (32, 8, 4096, 7168), (48, 8, 4096, 7168), (64, 8, 2048, 2048),
    (256, 8, 4096, 7168), (16, 1, 16384, 5120),
)  # fmt: skip
TOKENS = ((1, 16, 0.3), (17, 256, 0.6), (257, 4096, 0.9), (4097, 16384, 1.0))  # least, most, share up to here
UNEVEN = (0.0, 0.5, 1.0)  # standard deviations of the logit that an expert has for all tokens
GATED = 0.25  # share of the problems
MOST_ELEMENTS, MOST_PRODUCTS = 2.5e9, 6e11  # of a stack; of a problem


class Routed(NamedTuple):
    """A drawn problem, and how its rows fall to experts."""

    problem: Problem
    tokens: int
    chosen: int
    uneven: float


def drawn(seed: int) -> Iterator[Routed]:
    """Random problems without end."""
    draw, number = random.Random(seed), 0
    while True:
        experts, chosen, n, k = draw.choice(MODELS)
        if draw.random() < 0.5:
            experts = draw.choice((4, 8, 16, 32, 64, 128, 256))
            chosen = min(experts, draw.choice((1, 2, 4, 6, 8)))
            n, k = log_uniform(draw, 512, 16384, 64), log_uniform(draw, 512, 16384, 64)
        gated = draw.random() < GATED
        if not gated and draw.random() < 0.4:
            n, k = k, n // 2 // 32 * 32
        share = draw.random()
        least, most = next((least, most) for least, most, through in TOKENS if share <= through)
        tokens, uneven = log_uniform(draw, least, most), draw.choice(UNEVEN)
        m = tokens * chosen
        if experts * n * k <= MOST_ELEMENTS and m * n * k <= MOST_PRODUCTS:
            weight_format = FORMATS[number % len(FORMATS)]
            activation = "silu_mul" if gated else "none"
            problem = Problem(m, n, k, experts, weight_format=weight_format, activation=activation)
            yield Routed(problem, tokens, chosen, uneven)
            number += 1


def ends_of(routed: Routed, generator: torch.Generator) -> torch.Tensor:
    """The ends of the experts' rows for one choice of a router."""
    experts = routed.problem.groups
    common = torch.randn(experts, generator=generator, device=generator.device) * routed.uneven
    noise = (
        torch.rand((routed.tokens, experts), generator=generator, device=generator.device)
        .log_()
        .neg_()
        .log_()
        .neg_()
    )
    return group_ends((noise + common).topk(routed.chosen, 1).indices, experts)


def measured(routed: Routed, choices: Sequence[Candidate], timer: Timer) -> dict[str, Any]:
    """A problem's line of the file."""
    problem = routed.problem
    generator = torch.Generator("cuda").manual_seed(1)
    stacks = copies(measuring.make(problem, generator), SETS)
    sets = [
        stacks[turn % SETS].changed(group_ends=ends_of(routed, generator), out=stacks[0].out)
        for turn in range(ROUTINGS)
    ]
    calls = [
        [functools.partial(operands.call, candidate.tactic) for operands in sets] for candidate in choices
    ]
    us = {
        str(candidate.tactic): [round(time, 2), round(candidate.estimate.seconds * 1e6, 2)]
        for candidate, time in zip(choices, timer.medians(calls), strict=True)
    }
    return {
        "format": problem.weight_format, "tokens": routed.tokens, "chosen": routed.chosen,
        "experts": problem.groups, "uneven": routed.uneven, "n": problem.n, "k": problem.k,
        "activation": problem.activation, "first": str(choices[0].tactic), "us": us,
    }  # fmt: skip


def main() -> None:
    tactic_times.run(
        __doc__, [FAMILY.name], seed=71, output="expert_times.jsonl", drawn=drawn,
        measured=lambda routed, timer: measured(routed, candidates(FAMILY, routed.problem), timer),
    )  # fmt: skip


if __name__ == "__main__":
    main()
