"""Times tactics of `mixed_gemm` on problems drawn at random, which teach its choice (learn_mixed_model.py).

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.mixed_times --seed 41 --seconds 100 --output mixed_times.jsonl

Of each problem the tactics are timed that the model puts near its first, and the two best of each built
kernel: launched one after another, and each behind a small kernel that writes the activations, whose own time
is subtracted. Weights are taken in turn, and other memory is read before each sample, so that L2 holds none
of them. A line of the file is a problem: for each tactic the microseconds of a launch in a row, behind the
other kernel (none from 257 rows on), and by the model.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn
from benchmarks.lib.gemm_problems import log_uniform

from tilewright import context as contexts
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.selection.weighing import MOST_REFINED, Candidate
from tilewright.tools.measuring import copies
from tilewright.tools.timing import Replays

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
FLUSHED = 200 * 2**20  # bytes that are read before a sample
NEAR, EACH = 2.0, 2  # times the model's first, and tactics of each kernel
ROUNDS = 3


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


def worth_timing(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The tactics among which trees choose, and the best ones of each kernel."""
    limit, count = NEAR * ranked[0].estimate.seconds, dict[str, int]()
    kept = []
    for place, candidate in enumerate(ranked):
        name = candidate.record.name
        count[name] = count.get(name, 0) + 1
        if candidate.estimate.seconds < limit and (place < MOST_REFINED or count[name] <= EACH):
            kept.append(candidate)
    return kept


class Timer:
    """Samples of graphs, before each of which other memory is read."""

    def __init__(self) -> None:
        self._memory = torch.ones(FLUSHED // 4, device="cuda")
        self._pool = torch.cuda.MemPool()

    def medians(self, calls: Sequence[Sequence[Callable[[], Any]]]) -> list[float]:
        """Microseconds of a call of each list, which take turns."""
        graphs = [Replays(each, warm_up=1, pool=self._pool, wait=False) for each in calls]
        for graph in graphs:
            self._sample(graph)  # loads code
        sides = {number: functools.partial(self._sample, graph) for number, graph in enumerate(graphs)}
        return [seconds * 1e6 for seconds in in_turn.medians(sides, ROUNDS).values()]

    def _sample(self, graph: Replays) -> float:
        self._memory.sum()
        return graph.seconds()


def measured(problem: Problem, candidates: Sequence[Candidate], timer: Timer) -> dict[str, Any]:
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
        [functools.partial(operands.call, candidate.tactic) for operands in sets] for candidate in candidates
    ]
    behind = problem.m <= BEHIND
    if behind:
        calls += [
            [functools.partial(both, operands, candidate) for operands in sets] for candidate in candidates
        ]
        calls.append([functools.partial(write, operands) for operands in sets])
    times = timer.medians(calls)
    count = len(candidates)
    second = [time - times[-1] for time in times[count:-1]] if behind else [None] * count
    us = {
        str(candidate.tactic): [_rounded(first), _rounded(after), _rounded(candidate.estimate.seconds * 1e6)]
        for candidate, first, after in zip(candidates, times[:count], second, strict=True)
    }
    shape = {"format": problem.weight_format, "m": problem.m, "n": problem.n, "k": problem.k}
    return shape | {"first": str(candidates[0].tactic), "us": us}


def _rounded(microseconds: float | None) -> float | None:
    return None if microseconds is None else round(microseconds, 3)


def built() -> list[KernelRecord]:
    """The kernels of the family that are built."""
    current = contexts.current()
    device = current.device(torch.cuda.current_device())
    return [each for each in current.registry.route(FAMILY.name, device) if current.registry.is_built(each)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=100, help="start no problem after")
    parser.add_argument("--output", type=Path, default=Path("mixed_times.jsonl"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    until, timer, records = time.monotonic() + options.seconds, Timer(), built()
    device = contexts.current().device(torch.cuda.current_device())
    print(f"{len(records)} kernels are built; {device}", flush=True)
    with options.output.open("w", encoding="utf-8") as file:
        for problem in drawn(options.seed):
            if time.monotonic() > until:
                break
            row = measured(problem, worth_timing(FAMILY.rank(records, problem, device)), timer)
            file.write(json.dumps(row) + "\n")
            file.flush()
            times = {tactic: us[0] for tactic, us in row["us"].items()}
            best = min(times, key=times.__getitem__)
            print(
                f"{problem} best {times[best]:.1f} {best} first {times[row['first']] / times[best]:.3f} "
                f"of {len(times)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
