"""Times of `gemm` tactics of our own kernels (lean, and of few rows) on problems drawn at random, and
cuBLAS's: what the cost models are fitted to, and what the set of tiles is chosen by.

    python benchmarks/lean_times.py --dtype bf16 --seeds 21 22 --seconds 140 --output times_bf16.csv.gz

times the kernels that the specs list and that are built. Others, to choose among (choose_tiles.py):

    mkdir -p tiles/specs; cp benchmarks/specs/sm90_gemm_lean_tiles.yaml tiles/specs
    tilewright generate --root tiles; tilewright build --root tiles --filter a=bf16
    export TILEWRIGHT_GENERATED=tiles/generated

Problems are drawn as gemm_untuned.py draws them, from each seed in turn, until the time is over: those of one
seed fit, those of another test. With --m, --n and --k only those between such extents are taken; with --sizes
they are a file's, and their seed is 0.

Of each problem, the model's first tactics are timed, and others drawn at random from those that it puts
further behind: what it is wrong about is among either. Then the kernels of the fastest are timed in other
clusters and splits, and other kernels in theirs. The fastest are timed again, with every raster order where
there is more than a wave of tiles. All take turns with cuBLAS, so that the GPU's clock drifts for all of
them alike. Times are microseconds of a call, the median of what was measured, L2 cold, in a CUDA graph; a
row's last column says whether the tactic was one of the finalists.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gemm_untuned import clocks, drawn, seconds_of
from times_file import FIELDS, OPERANDS, PEER

from tilewright import context as contexts
from tilewright import timing
from tilewright.benchmarking import sizes
from tilewright.ops.common.family import Candidate
from tilewright.ops.common.measuring import make_operands
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import measuring
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.mainloops import mainloop_of
from tilewright.ops.gemm.problem import Problem
from tilewright.timing import Replays
from tilewright.tuning.search import promising

FIRST, OTHERS = 20, 30  # of the model's order, that are timed: its first, and others drawn at random
FACTOR = 1.6  # of the model's first: those that are drawn are not further behind
MOST_ROUND_SECONDS = 0.15  # that one call of each of those may take together
FASTEST, NEAR = 3, 4  # near so many, others are timed: so many each of its kernel, and in its cluster
FIRST_ROUNDS, ROUNDS = 2, 4
STOP = 1.3  # behind the fastest, at which a tactic is not timed again
FINALISTS, FINAL_ROUNDS = 6, 4
VARIED = 2  # of which every raster order is tried
LONGEST_SECONDS = 2e-3  # of a problem that is timed: for one of these, ten others
EXTENTS = ("m", "n", "k")
LONG_SECONDS = 5e-4  # of a call, that is repeated no more often than a cold L2 asks for


class Bench:
    """One problem's operands, and graphs of calls on them."""

    def __init__(self, problem: Problem, expected: float) -> None:
        device = contexts.current().device(torch.cuda.current_device())
        operands = make_operands(measuring, problem, device)
        if expected > LONG_SECONDS:
            operands = operands[: timing.rotations(problem.bytes, device.l2_bytes, least=2)]
        self._operands = operands
        self._graphs: dict[Tactic | None, Replays] = {}
        self._peer = measuring.peer(problem)

    def seconds(self, tactic: Tactic | None) -> float:
        """Of a call, by one replay; of cuBLAS's without a tactic."""
        return seconds_of(self._graph(tactic))

    def _graph(self, tactic: Tactic | None) -> Replays:
        found = self._graphs.get(tactic)
        if found is None:
            pool = next(iter(self._graphs.values())).pool if self._graphs else None
            found = self._graphs[tactic] = Replays(list(self._calls(tactic)), warm_up=1, pool=pool)
            found.replay()  # the first uploads the graph
        return found

    def _calls(self, tactic: Tactic | None) -> Iterator[Callable[[], Any]]:
        assert self._peer is not None
        _, call_peer = self._peer
        for one in self._operands:
            yield (lambda x=one: call_peer(x)) if tactic is None else (lambda x=one: x.call(tactic))  # type: ignore[misc]


def worth_timing(ranked: Sequence[Candidate], chance: random.Random) -> list[Tactic]:
    first = ranked[0].estimate.seconds
    most = max(FIRST, min(FIRST + OTHERS, int(MOST_ROUND_SECONDS / first)))
    far = promising(ranked, FACTOR)[FIRST:]
    return [one.tactic for one in (*ranked[:FIRST], *chance.sample(far, min(most - FIRST, len(far))))]


def near(fastest: Sequence[Tactic], ranked: Sequence[Candidate], timed: Container[Tactic]) -> list[Tactic]:
    """Others of the same kernels, and of other kernels in the same clusters and splits."""
    found: dict[Tactic, None] = {}
    untimed = [one.tactic for one in ranked if one.tactic not in timed]
    for tactic in fastest:
        same_kernel = [one for one in untimed if one.kernel == tactic.kernel]
        same_way = [one for one in untimed if replace(one, kernel=tactic.kernel) == tactic]
        found |= dict.fromkeys([*same_kernel[:NEAR], *same_way[:NEAR]])
    return list(found)


def measured(
    problem: Problem, ranked: Sequence[Candidate], chance: random.Random
) -> dict[str, tuple[float, bool]]:
    """Seconds by tactic, and whether it was a finalist."""
    bench = Bench(problem, ranked[0].estimate.seconds)
    samples: dict[Tactic | None, list[float]] = {}

    def take_turns(tactics: Iterable[Tactic | None], rounds: int) -> None:
        for _ in range(rounds):
            for tactic in tactics:
                samples.setdefault(tactic, []).append(bench.seconds(tactic))

    def fastest(within: float = math.inf) -> list[Tactic]:
        found = {one: statistics.median(seconds) for one, seconds in samples.items() if one is not None}
        limit = within * min(found.values())
        return sorted((one for one in found if found[one] <= limit), key=found.__getitem__)

    take_turns([None, *worth_timing(ranked, chance)], FIRST_ROUNDS)
    take_turns(near(fastest()[:FASTEST], ranked, samples), FIRST_ROUNDS)
    take_turns([None, *fastest(STOP)], ROUNDS - FIRST_ROUNDS)
    known = {one.tactic: one for one in ranked}
    varied = [known[one] for one in fastest()[:VARIED] if known[one].estimate.waves > 1]
    orders = [(one.record, two) for one in varied for two in FAMILY.variants(one.tactic)]
    legal = [two for record, two in orders if FAMILY.misfit_tactic(two, record, problem) is None]
    take_turns([one for one in legal if one.raster != "heuristic"], ROUNDS)
    finalists = dict.fromkeys([None, ranked[0].tactic, *fastest()[:FINALISTS]])
    take_turns(finalists, FINAL_ROUNDS)
    return {
        PEER if one is None else str(one): (statistics.median(seconds), one in finalists)
        for one, seconds in samples.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16")
    parser.add_argument("--exact", action="store_true", help="FP8 with exact accumulation")
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    for extent in EXTENTS:
        parser.add_argument(f"--{extent}", type=int, nargs=2, metavar=("LEAST", "MOST"), help="of problems")
    parser.add_argument("--sizes", type=Path, help="a file of problems, as shapes/gemm.yaml, in any order")
    parser.add_argument("--skip", type=int, default=0, help="so many problems of each seed")
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--output", type=Path, required=True, help="a .csv.gz")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    current = contexts.current()
    device = current.device(torch.cuda.current_device())
    registry = current.registry
    own = [one for one in registry.kernels("gemm") if mainloop_of(one) != "cutlass"]
    records = [one for one in own if registry.is_built(one)]
    print(f"{device}\n{len(records)} kernels of ours are built; clocks {clocks()}", flush=True)
    chance, until = random.Random(0), time.monotonic() + arguments.seconds
    count, seeds = 0, [0] if arguments.sizes else arguments.seeds
    problems = [itertools.islice(of_seed(arguments, seed), arguments.skip, None) for seed in seeds]
    with gzip.open(arguments.output, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for turn in zip(*problems, strict=False):
            for seed, problem in zip(seeds, turn, strict=True):
                if time.monotonic() > until:
                    print(f"{count} problems; clocks {clocks()}")
                    return 0
                ranked = FAMILY.rank(records, problem, device)
                if ranked[0].estimate.seconds > LONGEST_SECONDS:
                    continue
                found = measured(problem, ranked, chance)
                torch.cuda.empty_cache()
                shape = (problem.m, problem.n, problem.k)
                for tactic, (seconds, again) in found.items():
                    row = (arguments.dtype, seed, *shape, tactic, f"{seconds * 1e6:.3f}", int(again))
                    writer.writerow(row)
                file.flush()
                count += 1
                ours, peer = min(s for t, (s, _) in found.items() if t != PEER), found[PEER][0]
                first = found[str(ranked[0].tactic)][0]
                print(
                    f"{shape} peer {peer * 1e6:.2f} best {peer / ours:.3f} chosen {peer / first:.3f} "
                    f"of {len(found)}, {until - time.monotonic():.0f} s left",
                    flush=True,
                )
    print(f"all {count} problems; clocks {clocks()}")
    return 0


def of_seed(arguments: argparse.Namespace, seed: int) -> Iterator[Problem]:
    random_ones = drawn(arguments.dtype, seed, exact=arguments.exact)
    if not arguments.sizes:
        bounds = {one: getattr(arguments, one) or (1, sys.maxsize) for one in EXTENTS}
        return (
            problem
            for problem in random_ones
            if all(least <= getattr(problem, one) <= most for one, (least, most) in bounds.items())
        )
    kind = next(random_ones)
    listed = [replace(kind, **one.of(FAMILY.words)) for one in sizes.read(arguments.sizes)]
    return iter(random.Random(seed).sample(listed, len(listed)))


if __name__ == "__main__":
    sys.exit(main())
