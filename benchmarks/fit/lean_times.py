"""Times tactics of our own `gemm` kernels (lean, and for few rows) and cuBLAS on problems drawn at random.
The cost models are fitted to these times, and the set of tiles is chosen by them.

    python -m benchmarks.fit.lean_times --dtype bf16 --seeds 61 62 --seconds 140 --output times_bf16.csv.bz2

This command times the kernels that the specs list and that are built. To time further tiles for
choose_tiles.py:

    mkdir -p tiles/specs; cp benchmarks/specs/sm90_gemm_lean_tiles.yaml tiles/specs
    tilewright generate --root tiles; tilewright build --root tiles --filter a=bf16
    export TILEWRIGHT_GENERATED=tiles/generated:only

Problems are drawn like those of gemm_untuned.py, from each seed in turn, until the time is over. Problems
of one seed are for fitting, problems of another for testing. Each has one of the layouts and batches given.
With --wide, n and k are multiples of 8 from 64 and the layout is one of all four (`gemm_problems.wide`).
--m, --n and --k bound the extents. --sizes reads the problems from a file; their seed is 0.

For each problem, these tactics are timed:

1. The first tactics of the model, the first of the mechanisms alone, and some drawn at random from the
   tactics further behind. If the model is wrong about a tactic, the tactic is in one of these sets.
2. The kernels of the fastest in other clusters and splits, and other kernels in the clusters and splits of
   the fastest.
3. Again, the tactics near the fastest, and then the finalists, in turn with cuBLAS.

Times are microseconds of a call: medians, with a cold L2, in a CUDA graph. The column `again` says whether
the tactic was a finalist.

The program is made to time many problems. Other processes rank tactics ahead, graphs are captured while the
GPU runs earlier ones, and a graph holds no more calls than `GRAPH_SECONDS` take. Each graph uses the operands
that follow those of the graph before, so that L2 holds none of them.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gc
import itertools
import math
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.lib import machine
from benchmarks.lib.gemm_problems import LAYOUTS, OPERANDS, add_kinds, described, drawn_as, dtype_of, wide
from benchmarks.lib.times_file import FIELDS, rows

from tilewright import context as contexts
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.tools.benchmarking import sizes
from tilewright.tools.measuring import make_operands
from tilewright.tools.timing import Replays

# Of the model's order: its first, the first of the mechanisms alone, and others drawn at random.
FIRST, BY_MECHANISMS, OTHERS = 18, 9, 9
FACTOR = 1.5  # of the mechanisms' first: those that are drawn are not further behind
MOST_ROUND_SECONDS = 0.015  # that one call of each of those may take together
FASTEST, NEAR = 3, 3  # near each of the FASTEST, NEAR others of its kernel, and NEAR in its cluster
NEAR_AMONG = 200  # of the model's first
ROUNDS, MORE_ROUNDS, FINAL_ROUNDS = 2, 1, 3
STOP = 1.12  # behind the fastest, at which a tactic is not timed again
FINALISTS = 6
LONGEST_SECONDS = 1e-3  # of a problem that is timed unless told: for one of these, ten others
EXTENTS = ("m", "n", "k")
GRAPH_SECONDS, LEAST_CALLS = 1e-4, 2  # of a replay
UPLOADED_SECONDS = 3e-4  # of a replay, that need not be the second: its upload does not count
HEAD_START_CYCLES = 60_000  # 30 us: events and graph are enqueued before the GPU comes to them
MOST_RESERVED = 60 * 2**30  # bytes that torch keeps from problem to problem
AHEAD, PROCESSES = 48, 6  # problems that are ranked ahead


class Ranked(NamedTuple):
    """A problem, and which of its tactics to time: at first, and near the fastest of those."""

    seed: int
    problem: Problem
    seconds: float  # of a call, by the model
    first: list[Tactic]
    others: list[Tactic]  # the model's next


def ranked(seed: int, problem: Problem, device: DeviceProperties) -> Ranked:
    """The ranking of a problem's tactics by the model, for kernels that are built."""
    order = FAMILY.rank(built(), problem, device)
    seconds = order[0].estimate.seconds
    by_mechanisms = sorted(
        (weigh(tactic).seconds, tactic)
        for record in FAMILY.fitting(built(), problem)
        if (weigh := FAMILY.estimator(record, problem, device)) is not None
        for tactic in FAMILY.candidates(record, problem, device)
    )
    most = max(FIRST, min(FIRST + BY_MECHANISMS + OTHERS, int(MOST_ROUND_SECONDS / seconds)))
    first = dict.fromkeys(candidate.tactic for candidate in order[:FIRST])
    first |= dict.fromkeys(tactic for _, tactic in by_mechanisms[:BY_MECHANISMS])
    far = [
        tactic
        for time, tactic in by_mechanisms
        if time < FACTOR * by_mechanisms[0][0] and tactic not in first
    ]
    chance = random.Random(str(problem))
    drawn_ones = chance.sample(far, max(0, min(most - len(first), len(far))))
    timed = [*first, *drawn_ones]
    next_tactics = [candidate.tactic for candidate in order[:NEAR_AMONG] if candidate.tactic not in timed]
    return Ranked(seed, problem, seconds, timed, next_tactics)


@cache
def built() -> list[KernelRecord]:
    """The kernels of ours that selection chooses on Hopper and that are built."""
    registry = contexts.current().registry
    own = [record for record in registry.kernels("gemm") if mainloop_of(record) in ("lean", "stream")]
    return [record for record in own if registry.is_built(record)]


class Bench:
    """One problem's operands, and graphs of calls on them. `read` waits for the samples."""

    def __init__(self, problem: Problem, expected: float) -> None:
        device = contexts.current().device(torch.cuda.current_device())
        self.samples: dict[Tactic | None, list[float]] = {}
        self._expected = expected
        self._calls = max(LEAST_CALLS, math.ceil(GRAPH_SECONDS / expected))
        self._operands = itertools.cycle(make_operands(measuring, problem, device))
        self._graphs: dict[Tactic | None, Replays] = {}
        self._waiting: list[tuple[Tactic | None, torch.cuda.Event, torch.cuda.Event]] = []
        self._peer = measuring.peer(problem)

    def take_turns(self, tactics: Iterable[Tactic | None], rounds: int) -> None:
        """One sample of each, cuBLAS's without a tactic; then again. A tactic that is refused is left out."""
        for _ in range(rounds):
            for tactic in tactics:
                graph = self._graph(tactic)
                if graph is None:
                    continue
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda._sleep(HEAD_START_CYCLES)
                start.record()
                graph.replay()
                end.record()
                self._waiting.append((tactic, start, end))

    def read(self) -> None:
        torch.cuda.synchronize()
        for tactic, start, end in self._waiting:
            seconds = start.elapsed_time(end) * 1e-3 / self._calls
            self.samples.setdefault(tactic, []).append(seconds)
        self._waiting.clear()

    def fastest(self, within: float = math.inf) -> list[Tactic]:
        self.read()
        medians = {
            tactic: statistics.median(seconds)
            for tactic, seconds in self.samples.items()
            if tactic is not None
        }
        limit = within * min(medians.values())
        return sorted((tactic for tactic in medians if medians[tactic] <= limit), key=medians.__getitem__)

    def _graph(self, tactic: Tactic | None) -> Replays | None:
        if tactic not in self._graphs:
            pool = next(iter(self._graphs.values())).pool if self._graphs else None
            try:
                graph = Replays([*self._made(tactic)], warm_up=1, pool=pool, wait=False)
            except TilewrightError as error:
                print(f"{tactic}: {error}", flush=True)
                return None
            if self._calls * self._expected < UPLOADED_SECONDS:
                graph.replay()  # the first uploads the graph
            self._graphs[tactic] = graph
        return self._graphs[tactic]

    def _made(self, tactic: Tactic | None) -> Iterator[Callable[[], Any]]:
        assert self._peer is not None
        _, call_peer = self._peer
        for operand in itertools.islice(self._operands, self._calls):
            yield (lambda x=operand: call_peer(x)) if tactic is None else (lambda x=operand: x.call(tactic))  # type: ignore[misc]


def near(fastest: Sequence[Tactic], others: Sequence[Tactic], timed: Container[Tactic]) -> list[Tactic]:
    """Untimed tactics of the fastest kernels, and of other kernels with the same clusters and splits."""
    tactics: dict[Tactic, None] = {}
    untimed = [candidate for candidate in others if candidate not in timed]
    for tactic in fastest:
        same_kernel = [candidate for candidate in untimed if candidate.kernel == tactic.kernel]
        same_way = [candidate for candidate in untimed if replace(candidate, kernel=tactic.kernel) == tactic]
        tactics |= dict.fromkeys([*same_kernel[:NEAR], *same_way[:NEAR]])
    return list(tactics)


def measured(ranking: Ranked) -> tuple[float, dict[str, tuple[float, bool]]]:
    """Seconds of cuBLAS, and by tactic its seconds and whether it was a finalist."""
    bench = Bench(ranking.problem, ranking.seconds)
    bench.take_turns([None, *ranking.first], ROUNDS)
    bench.take_turns(near(bench.fastest()[:FASTEST], ranking.others, bench.samples), ROUNDS)
    bench.take_turns([None, *bench.fastest(STOP)], MORE_ROUNDS)
    finalists = dict.fromkeys([None, ranking.first[0], *bench.fastest()[:FINALISTS]])
    bench.take_turns(finalists, FINAL_ROUNDS)
    bench.read()
    seconds = {tactic: statistics.median(samples) for tactic, samples in bench.samples.items()}
    peer = seconds.pop(None)
    return peer, {str(tactic): (median, tactic in finalists) for tactic, median in seconds.items()}


def load(kernels: Iterable[KernelRecord]) -> None:
    """Calls each kernel once: its first call loads it, which takes its time and stops the GPU."""
    for record in kernels:
        kind = {name: record.config[name] for name in ("a", "b", "d", "layout", "fast_accum")}
        problem, whole = Problem(8, 512, 2048, **kind), Tactic(record.name)
        in_parts = replace(whole, decomposition="split_k", splits=2)
        legal = [
            tactic for tactic in (whole, in_parts) if FAMILY.misfit_tactic(tactic, record, problem) is None
        ]
        if legal:
            operands = measuring.make(problem, torch.Generator("cuda").manual_seed(0))
            for tactic in legal:
                operands.call(tactic)
    torch.cuda.synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, nargs="+", default=["bf16"], help="each shape in all")
    add_kinds(parser)
    parser.add_argument("--wide", action="store_true", help="extents of multiples of 8, in all layouts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[61, 62], help="of the random problems")
    for extent in EXTENTS:
        parser.add_argument(f"--{extent}", type=int, nargs=2, metavar=("LEAST", "MOST"), help="of problems")
    parser.add_argument("--sizes", type=Path, help="a file of problems, as shapes/gemm.yaml, in any order")
    parser.add_argument("--skip", type=int, default=0, help="first problems of each seed to leave out")
    parser.add_argument("--longest", type=float, default=LONGEST_SECONDS, help="seconds that a call may take")
    parser.add_argument("--seconds", type=float, default=140, help="start no problem after this time")
    parser.add_argument("--output", type=Path, required=True, help="a .csv.bz2")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(PROCESSES) as processes:
        list(processes.map(len, [[]] * PROCESSES))  # forked before CUDA is there
        machine.require_gpu()
        count = timed(arguments, processes)
        processes.shutdown(cancel_futures=True)
    print(f"{count} problems; clocks {machine.clocks()}")
    return 0


def timed(arguments: argparse.Namespace, processes: Executor) -> int:
    """Times problems until the time is over, and returns their number."""
    until = time.monotonic() + arguments.seconds
    device = contexts.current().device(torch.cuda.current_device())
    waiting = ahead(arguments, device, processes)
    load(kernels := kernels_of(arguments))
    gc.freeze()  # registry and plans: what is collected is what problems leave
    print(f"{device}\n{len(kernels)} kernels of ours are built; clocks {machine.clocks()}", flush=True)
    count = 0
    with bz2.open(arguments.output, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for ranking in waiting:
            if time.monotonic() > until:
                break
            if ranking.seconds > arguments.longest:
                continue
            peer, tactics = measured(ranking)
            if torch.cuda.memory_reserved() > MOST_RESERVED:
                torch.cuda.empty_cache()
            problem = ranking.problem
            writer.writerows(rows(ranking.seed, problem, peer, tactics))
            count += 1
            best, first = min(tactics.values())[0], tactics[str(ranking.first[0])][0]
            print(
                f"{dtype_of(problem)} {ranking.seed} {problem.layout} {problem.extents_text} peer "
                f"{peer * 1e6:.2f} best {peer / best:.3f} chosen {peer / first:.3f} of {len(tactics)}, "
                f"{until - time.monotonic():.1f} s left",
                flush=True,
            )
    return count


def kernels_of(arguments: argparse.Namespace) -> list[KernelRecord]:
    """The built kernels that compute problems of the types and layouts of the command."""
    kinds = [
        described(dtype, 8, 512, 2048, layout=layout).kind
        for dtype in arguments.dtype
        for layout in (LAYOUTS if arguments.wide else arguments.layout)
    ]
    return [record for record in built() if any(FAMILY.misfit_kind(record, kind) is None for kind in kinds)]


def ahead(arguments: argparse.Namespace, device: DeviceProperties, processes: Executor) -> Iterator[Ranked]:
    """Problems in their order, ranked by other processes."""
    problems, waiting = problems_of(arguments), deque[Future[Ranked]]()
    for seed, problem in problems:
        waiting.append(processes.submit(ranked, seed, problem, device))
        if len(waiting) >= AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def problems_of(arguments: argparse.Namespace) -> Iterator[tuple[int, Problem]]:
    """The problems of the command with their seeds, which take turns; each shape in all types."""
    seeds = [0] if arguments.sizes else arguments.seeds
    streams = [
        itertools.islice(of_seed(arguments, dtype, seed), arguments.skip, None)
        for seed in seeds
        for dtype in arguments.dtype
    ]
    of_each = [seed for seed in seeds for _ in arguments.dtype]
    for turn in zip(*streams, strict=False):
        yield from zip(of_each, turn, strict=True)


def of_seed(arguments: argparse.Namespace, dtype: str, seed: int) -> Iterator[Problem]:
    random_ones = wide(dtype, seed) if arguments.wide else drawn_as(arguments, dtype, seed)
    if not arguments.sizes:
        bounds = {extent: getattr(arguments, extent) or (1, sys.maxsize) for extent in EXTENTS}
        return (
            problem
            for problem in random_ones
            if all(least <= getattr(problem, extent) <= most for extent, (least, most) in bounds.items())
        )
    listed = [
        replace(kind, **size.of(FAMILY.words))
        for size, kind in zip(sizes.read(arguments.sizes), random_ones, strict=False)
    ]
    return iter(random.Random(seed).sample(listed, len(listed)))


if __name__ == "__main__":
    sys.exit(main())
