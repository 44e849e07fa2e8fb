"""Times tactics of `gemm`, cold and warm, on problems drawn at random where splits of k compete.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.split_times --seed 1127 --seconds 85 --output times.csv.bz2

m is log-uniform from 2 to 1,500 and no power of two, n from 32 to 12,000, k from 1,024 to 32,768. Five draws
in six are of BF16, half of these with extents of multiples of 8 and one of the four layouts; the others are
of FP16 and FP8. A problem counts if the model gives it less than 60 us, and if the mechanisms put the first
tactic that splits k through the workspace between 0.8 and 1.2 times the first of the others.

Of each problem these tactics are timed: the first of the model and of the mechanisms, with and without such a
split; the first splits with fewer parts; and some drawn at random. Cold: in a CUDA graph of launches with a
softmax and a layer norm over 16 MB each between them, whose own time is subtracted. Warm: launched one after
another on operands that L2 does not hold. All are replayed twice, and those near the fastest five times more,
in turn with cuBLAS. The file (times_file.py) has the geometric mean of both medians; `again` are those near
the fastest.
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
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.lib import machine
from benchmarks.lib.gemm_problems import LAYOUTS, MN_MULTIPLE, described, log_uniform
from benchmarks.lib.launch_cases import OtherKernels, case_of
from benchmarks.lib.launch_graphs import MEASURES, free_memory
from benchmarks.lib.times_file import FIELDS, PEER, rows

from tilewright import context as contexts
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.tools.timing import Replays

KINDS, WEIGHTS = ("bf16", "bf16_wide", "f16", "fp8"), (5, 5, 1, 1)
LONGEST = 60e-6  # seconds of a problem, by the model
LEAST_SHARE, MOST_SHARE = 0.8, 1.2  # of the first split's estimate in the first other's
# Tactics: the model's first without a split through the workspace, and with; the mechanisms' the same.
FIRST, FIRST_SPLITS, BY_MECHANISMS, SPLITS = 8, 3, 4, 8
OF_KERNEL = 3  # splits of a kernel among those
FEWER_PARTS = 3  # of the first splits that are timed with fewer parts, too
CHANCE, FAR = 3, 1.35  # drawn from the splits within FAR of the first
COLD_LAUNCHES, WARM_LAUNCHES = 10, 32  # of a graph
SCREENED, ROUNDS, NEAR = 2, 5, 1.13  # samples of all; more of those within NEAR of the fastest
BETWEEN_SAMPLES = 4  # cold samples beside one of the other kernels' own time
AHEAD, PROCESSES = 24, 3  # problems that are ranked ahead


class Ranked(NamedTuple):
    """A problem, and its tactics to time, the model's first one first."""

    problem: Problem
    tactics: list[Tactic]


def drawn(seed: int) -> Iterator[Problem]:
    """Problems without end, of which many have no use for a split."""
    draw = random.Random(f"{seed}, splits")
    while True:
        kind = draw.choices(KINDS, WEIGHTS)[0]
        k, n = 8 * log_uniform(draw, 128, 4096), 8 * log_uniform(draw, 4, 1500)
        m = log_uniform(draw, 2, 1500)
        layout = draw.choice(LAYOUTS) if kind in ("bf16_wide", "f16") else "tn"
        if kind in ("bf16", "fp8"):
            k, n = -(-k // 64) * 64, -(-n // 64) * 64
        if layout[0] == "n":
            m = -(-m // MN_MULTIPLE) * MN_MULTIPLE
        if m & (m - 1):
            yield described(kind.removesuffix("_wide"), m, n, k, layout=layout)


@cache
def built() -> list[KernelRecord]:
    """The kernels of ours that selection chooses on Hopper and that are built."""
    registry = contexts.current().registry
    own = [record for record in registry.kernels("gemm") if mainloop_of(record) in ("lean", "stream")]
    return [record for record in own if registry.is_built(record)]


def in_memory(tactic: Tactic) -> bool:
    return tactic.decomposition == "split_k"


def ranked(problem: Problem, device: DeviceProperties) -> Ranked | None:
    """The tactics to time; None if no split competes."""
    order = [candidate.tactic for candidate in FAMILY.rank(built(), problem, device)]
    estimates = {
        tactic: weigh(tactic).seconds
        for record in FAMILY.fitting(built(), problem)
        if (weigh := FAMILY.estimator(record, problem, device)) is not None
        for tactic in FAMILY.candidates(record, problem, device)
    }
    by_mechanisms = sorted(estimates, key=estimates.__getitem__)
    splits = [tactic for tactic in by_mechanisms if in_memory(tactic)]
    unsplit = [tactic for tactic in by_mechanisms if not in_memory(tactic)]
    if not splits or not unsplit or estimates[by_mechanisms[0]] > LONGEST:
        return None
    if not LEAST_SHARE < estimates[splits[0]] / estimates[unsplit[0]] < MOST_SHARE:
        return None
    of_kernel: Counter[str] = Counter()
    first_splits: list[Tactic] = []
    for tactic in splits:
        of_kernel[tactic.kernel] += 1
        if of_kernel[tactic.kernel] <= OF_KERNEL and len(first_splits) < SPLITS:
            first_splits.append(tactic)
    chosen = [
        order[0],
        *[tactic for tactic in order if not in_memory(tactic)][:FIRST],
        *unsplit[:BY_MECHANISMS],
        *[tactic for tactic in order if in_memory(tactic)][:FIRST_SPLITS],
        *first_splits,
        *itertools.chain.from_iterable(fewer_parts(tactic, problem) for tactic in splits[:FEWER_PARTS]),
    ]
    near = [tactic for tactic in splits[SPLITS:] if estimates[tactic] < FAR * estimates[splits[0]]]
    chance = random.Random(str(problem)).sample(near, min(CHANCE, len(near)))
    return Ranked(problem, [*dict.fromkeys([*chosen, *chance])])


def fewer_parts(tactic: Tactic, problem: Problem) -> Iterator[Tactic]:
    """The tactic with fewer parts."""
    (record,) = (record for record in built() if record.name == tactic.kernel)
    most = tactic.splits
    for splits in sorted({2, most // 2, 2 * most // 3, 3 * most // 4, most - 1} & set(range(2, most))):
        fewer = replace(tactic, splits=splits)
        if FAMILY.misfit_tactic(fewer, record, problem) is None:
            yield fewer


def ahead(seed: int, device: DeviceProperties, processes: Executor) -> Iterator[Ranked]:
    """Problems where splits compete, ranked by other processes, in their order."""
    waiting: deque[Future[Ranked | None]] = deque()
    for problem in drawn(seed):
        waiting.append(processes.submit(ranked, problem, device))
        if len(waiting) >= AHEAD and (ready := waiting.popleft().result()) is not None:
            yield ready


class Bench:
    """Graphs of one problem's tactics and of cuBLAS, and their samples."""

    def __init__(self, noise: OtherKernels, alone: Replays) -> None:
        self._noise, self._alone, self._taken, self._between = noise, alone, 0, 0.0

    def microseconds(self, ranking: Ranked) -> tuple[dict[str, dict[str, float]], set[str]]:
        """Medians by measure and side, and the sides near the fastest. A refused tactic is left out."""
        case = case_of(ranking.problem, None)
        while len(case.sets) < COLD_LAUNCHES:
            case.sets.extend(case.sets[: COLD_LAUNCHES - len(case.sets)])
        sides: dict[str, Any] = {PEER: case.peers["cublas"]}
        sides |= {str(tactic): partial(_call, tactic) for tactic in ranking.tactics}
        graphs: dict[tuple[str, str], Replays] = {}
        for side, call in sides.items():
            launches = {
                "warm": case.calls(call, WARM_LAUNCHES),
                "cold": [*map(self._noise.before, case.calls(call, COLD_LAUNCHES))],
            }
            try:
                graphs |= {(measure, side): self._graph(launches[measure]) for measure in MEASURES}
            except TilewrightError as error:
                print(f"{side}: {error}", flush=True)
        for graph in graphs.values():
            graph.replay()  # the first uploads the graph
        samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._take_turns(graphs, samples, [*graphs], SCREENED)
        near = {PEER, str(ranking.tactics[0])}
        for measure in MEASURES:
            times = {
                side: statistics.median(samples[measure, side]) for own, side in graphs if own == measure
            }
            fastest = min(seconds for side, seconds in times.items() if side != PEER)
            near |= {side for side, seconds in times.items() if seconds < NEAR * fastest}
        self._take_turns(graphs, samples, [key for key in graphs if key[1] in near], ROUNDS)
        medians: dict[str, dict[str, float]] = {measure: {} for measure in MEASURES}
        for (measure, side), taken in samples.items():
            medians[measure][side] = statistics.median(taken) * 1e6
        return medians, near

    def _graph(self, calls: Sequence[Any]) -> Replays:
        return Replays(calls, warm_up=1, pool=self._alone.pool, wait=False)

    def _take_turns(
        self,
        graphs: dict[tuple[str, str], Replays],
        samples: dict[tuple[str, str], list[float]],
        keys: Sequence[tuple[str, str]],
        rounds: int,
    ) -> None:
        for number in range(rounds):
            turn = [*keys[number % len(keys) :], *keys[: number % len(keys)]]
            for key in turn if number % 2 else turn[::-1]:
                if key[0] == "warm":
                    graphs[key].replay()  # so that its code is in the caches
                    samples[key].append(graphs[key].seconds())
                else:
                    samples[key].append(graphs[key].seconds() - self._between_seconds())

    def _between_seconds(self) -> float:
        """The other kernels' own time, which drifts with the clocks."""
        if self._taken % BETWEEN_SAMPLES == 0:
            self._between = statistics.median(self._alone.seconds() for _ in range(3))
        self._taken += 1
        return self._between


def _call(tactic: Tactic, operands: Any) -> None:
    operands.call(tactic)


def both(medians: dict[str, dict[str, float]]) -> dict[str, float]:
    """Geometric means of cold and warm microseconds."""
    return {
        side: math.sqrt(max(cold, 0.01) * medians["warm"][side]) for side, cold in medians["cold"].items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1127, help="of the random problems")
    parser.add_argument("--seconds", type=float, default=85, help="start no problem after")
    parser.add_argument("--output", type=Path, required=True, help="a .csv.bz2")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    losses: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    with ProcessPoolExecutor(PROCESSES) as processes:
        list(processes.map(len, [[]] * PROCESSES))  # forked before CUDA is there
        machine.require_gpu()
        device = contexts.current().device(torch.cuda.current_device())
        waiting = ahead(arguments.seed, device, processes)
        noise = OtherKernels()
        bench = Bench(noise, Replays([noise] * COLD_LAUNCHES))
        gc.freeze()
        with bz2.open(arguments.output, "wt", newline="") as file:
            csv.writer(file).writerow(FIELDS)
        for ranking in waiting:
            if time.monotonic() > until:
                break
            medians, near = bench.microseconds(ranking)
            free_memory()
            times = both(medians)
            tactics = {side: (us * 1e-6, side in near) for side, us in times.items() if side != PEER}
            with bz2.open(arguments.output, "at", newline="") as file:  # so that a run may be ended
                lines = rows(arguments.seed, ranking.problem, times[PEER] * 1e-6, tactics)
                csv.writer(file).writerows(lines)
            print(progress(ranking, medians, near, losses), flush=True)
        processes.shutdown(cancel_futures=True)
    for measure, behind in losses.items():
        if behind:
            mean = statistics.geometric_mean(behind)
            print(f"{measure}: {len(behind)} problems, {mean:.4f} behind the fastest")
    return 0


def progress(
    ranking: Ranked, medians: dict[str, dict[str, float]], near: set[str], losses: dict[str, list[float]]
) -> str:
    """A line about a problem: cuBLAS's time over the first's, and the first's over the fastest's."""
    words = [ranking.problem.extents_text, ranking.problem.layout, ranking.problem.a]
    first = str(ranking.tactics[0])
    for measure, times in medians.items():
        fastest = min(near - {PEER}, key=times.__getitem__)
        losses[measure].append(times[first] / times[fastest])
        words.append(f"{measure} {times[PEER] / times[first]:.3f} behind {losses[measure][-1]:.3f} {fastest}")
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main())
