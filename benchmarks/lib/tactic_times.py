"""Programs that time tactics of packed weights on random problems, from which cost models learn."""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from benchmarks.lib import in_turn, machine

from tilewright import context as contexts
from tilewright.declarations.table import KernelRecord
from tilewright.selection.weighing import MOST_REFINED, Candidate
from tilewright.tools.timing import Replays

P = TypeVar("P")
Row = dict[str, Any]

NEAR = 2.0  # times the estimate of the model's first tactic: tactics that are estimated longer are not timed
OF_KERNEL = 2  # tactics of each kernel that are timed beside those among which trees choose
ROUNDS = 3


@functools.cache
def built(family: str) -> list[KernelRecord]:
    """The kernels of a family that are built and run on this GPU."""
    current = contexts.current()
    device = current.device(torch.cuda.current_device())
    return [record for record in current.registry.route(family, device) if current.registry.is_built(record)]


def worth_timing(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The tactics among which trees choose, and the best ones of each kernel."""
    limit, count = NEAR * ranked[0].estimate.seconds, dict[str, int]()
    kept = []
    for place, candidate in enumerate(ranked):
        name = candidate.record.name
        count[name] = count.get(name, 0) + 1
        if candidate.estimate.seconds < limit and (place < MOST_REFINED or count[name] <= OF_KERNEL):
            kept.append(candidate)
    return kept


def candidates(family: Any, problem: Any) -> list[Candidate]:
    """The tactics of built kernels that are worth timing for a problem on this GPU, the model's first one in
    front; none if no built kernel computes it."""
    device = contexts.current().device(torch.cuda.current_device())
    ranked = family.rank(built(family.name), problem, device)
    return worth_timing(ranked) if ranked else []


class Timer:
    """Samples of graphs, before each of which other memory is read."""

    def __init__(self) -> None:
        self._flushed = in_turn.Flushed()
        self._pool = torch.cuda.MemPool()

    def medians(self, calls: Sequence[Sequence[Callable[[], Any]]]) -> list[float]:
        """Microseconds of a call of each list, which take turns."""
        graphs = [Replays(turns, warm_up=1, pool=self._pool, wait=False) for turns in calls]
        sides = {number: self._flushed(graph) for number, graph in enumerate(graphs)}
        for sample in sides.values():
            sample()  # loads code
        return [seconds * 1e6 for seconds in in_turn.medians(sides, ROUNDS).values()]


def run(
    doc: str | None,
    families: Sequence[str],
    *,
    seed: int,
    output: str,
    drawn: Callable[[int], Iterator[P]],
    measured: Callable[[P, Timer], Row | None],
) -> None:
    """The command line of a program that times tactics. A line of its file is what `measured` gives for a
    problem: its tactics' microseconds under `us`, measured ones first, and the model's choice under `first`.
    Problems for which it gives None are left out."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=seed, help="of the random problems")
    parser.add_argument("--seconds", type=float, default=100, help="start no problem after this time")
    parser.add_argument("--output", type=Path, default=Path(output), help="a file of JSON lines")
    options = parser.parse_args()
    machine.require_gpu()
    until, timer = time.monotonic() + options.seconds, Timer()
    for family in families:
        print(f"{len(built(family))} kernels of {family} are built", flush=True)
    with options.output.open("w", encoding="utf-8") as file:
        for problem in drawn(options.seed):
            if time.monotonic() > until:
                break
            row = measured(problem, timer)
            if row is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(f"{problem} {summary(row)}", flush=True)


def summary(row: Row) -> str:
    """The fastest tactic of a line, and how far the model's choice is behind it."""
    times = {tactic: us[0] for tactic, us in row["us"].items()}
    best = min(times, key=times.__getitem__)
    return f"best {times[best]:.1f} {best} first {times[row['first']] / times[best]:.3f} of {len(times)}"
