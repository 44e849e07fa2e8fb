"""Times tactics of `mixed_grouped_gemm` on problems drawn at random, which teach its choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.expert_times --seed 71 --seconds 100 --output expert_times.jsonl

A router chooses the experts of each token: its logits are random, and some experts are more likely than
others to an extent that is drawn, too. Of each problem the tactics are timed that the model puts near its
first, and the two best of each built kernel. Stacks and choices of experts are taken in turn, and other
memory is read before each sample, so that L2 holds none of them. A line of the file is a problem: for each
tactic the microseconds of a launch, and by the model.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.fit.mixed_times import Timer, worth_timing
from benchmarks.lib.gemm_problems import log_uniform

from tilewright import context as contexts
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
SETS = 2  # stacks
ROUTINGS = 4  # choices of experts, in turn


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
    common = torch.randn(experts, generator=generator, device="cuda") * routed.uneven
    noise = (
        torch.rand((routed.tokens, experts), generator=generator, device="cuda").log_().neg_().log_().neg_()
    )
    chosen = (noise + common).topk(routed.chosen, 1).indices.flatten()
    return torch.bincount(chosen, minlength=experts).cumsum(0).int()


def measured(routed: Routed, candidates: Sequence[Candidate], timer: Timer) -> dict[str, Any]:
    """A problem's line of the file."""
    problem = routed.problem
    generator = torch.Generator("cuda").manual_seed(1)
    stacks = copies(measuring.make(problem, generator), SETS)
    sets = [
        stacks[turn % SETS].changed(group_ends=ends_of(routed, generator), out=stacks[0].out)
        for turn in range(ROUTINGS)
    ]
    calls = [
        [functools.partial(operands.call, candidate.tactic) for operands in sets] for candidate in candidates
    ]
    us = {
        str(candidate.tactic): [round(each, 2), round(candidate.estimate.seconds * 1e6, 2)]
        for candidate, each in zip(candidates, timer.medians(calls), strict=True)
    }
    return {
        "format": problem.weight_format, "tokens": routed.tokens, "chosen": routed.chosen,
        "experts": problem.groups, "uneven": routed.uneven, "n": problem.n, "k": problem.k,
        "activation": problem.activation, "first": str(candidates[0].tactic), "us": us,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=71)
    parser.add_argument("--seconds", type=float, default=100, help="start no problem after")
    parser.add_argument("--output", type=Path, default=Path("expert_times.jsonl"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    current = contexts.current()
    until, timer = time.monotonic() + options.seconds, Timer()
    device = current.device(torch.cuda.current_device())
    registry = current.registry
    records = [record for record in registry.route(FAMILY.name, device) if registry.is_built(record)]
    print(f"{len(records)} kernels are built; {device}", flush=True)
    with options.output.open("w", encoding="utf-8") as file:
        for routed in drawn(options.seed):
            if time.monotonic() > until:
                break
            row = measured(routed, worth_timing(FAMILY.rank(records, routed.problem, device)), timer)
            file.write(json.dumps(row) + "\n")
            file.flush()
            times = {tactic: us[0] for tactic, us in row["us"].items()}
            best = min(times, key=times.__getitem__)
            ratio = times[row["first"]] / times[best]
            print(
                f"{routed.problem} best {times[best]:.1f} {best} first {ratio:.3f} of {len(times)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
