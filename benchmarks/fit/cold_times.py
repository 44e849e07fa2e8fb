"""Times tactics, cold and warm, on problems drawn at random, which teach a family's choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.cold_times scaled contiguous_fp8 masked_fp8 k_grouped_fp8
        --seed 21 --seconds 200 --output cold_times.jsonl

Of each problem, each built kernel's best tactics by the model and all whose estimates are near the first are
timed (with --tactics N, the first N of the ranking, which takes a third of the time) as `cold_launches.py`
does: in a CUDA graph of launches with a softmax and a layer norm over 16 MB each between them, whose own time
is subtracted. Those near the fastest are timed warm, too: launched one after another on operands that L2 does
not hold. The fastest are timed again in turn. A line of the file is a problem: microseconds by tactic on cold
code (`us`), of those timed in turn (`turns`), the same on warm code (`warm_us`, `warm_turns`), and the
model's first.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from benchmarks.fit.grouped_times import worth_timing
from benchmarks.lib import in_turn
from benchmarks.lib.deepgemm_calls import MORE_ROWS
from benchmarks.lib.launch_cases import Case, OtherKernels, case_of
from benchmarks.lib.launch_graphs import free_memory
from benchmarks.lib.random_problems import KINDS, text_of

from tilewright import context as contexts
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.tools.timing import Replays

BETWEEN = "between"  # names the other kernels alone, among the sides that take turns
LAUNCHES = 8  # of a graph
PAIRS = 3  # replays of a tactic, each beside a replay of the other kernels alone
WARM_SAMPLES = 3
NEAR = 1.12  # times the fastest on cold code: tactics that are timed warm
FINALISTS, ROUNDS = 6, 9
FACTOR, EACH = 1.35, 2  # estimates near the first, and tactics of each kernel


def measured(case: Case, noise: OtherKernels, tactics: Sequence[Tactic], until: float) -> dict[str, Any]:
    """Microseconds of the tactics, the fastest of them in turn."""
    count = min(LAUNCHES, len(case.sets))
    alone = Replays([noise] * count)

    def calls_of(tactic: Tactic, most: int | None) -> list[Callable[[], Any]]:
        return case.calls(lambda operands: operands.call(tactic), most)

    def graph_of(calls: Sequence[Callable[[], Any]]) -> Replays:
        return Replays(calls, warm_up=1, pool=alone.pool, wait=False)

    def cold(tactic: Tactic) -> Replays:
        return graph_of([noise.before(call) for call in calls_of(tactic, count)])

    def warm(tactic: Tactic) -> Replays:
        return graph_of(calls_of(tactic, None))

    times: dict[Tactic, float] = {}
    for tactic in tactics:
        graph = cold(tactic)
        graph.replay()
        # Beside the other kernels' own time, which drifts with the clocks: by more than some launches take.
        pairs = [(graph.seconds(), alone.seconds()) for _ in range(PAIRS)]
        times[tactic] = statistics.median(total - other for total, other in pairs)
        if time.monotonic() > until:
            break
    order = sorted(times, key=times.__getitem__)
    near = [tactic for tactic in order if times[tactic] <= NEAR * times[order[0]]]
    warm_times: dict[Tactic, float] = {}
    for tactic in near:
        sample = in_turn.replayed(warm(tactic))
        warm_times[tactic] = min(sample() for _ in range(WARM_SAMPLES))
    fastest = [*order[:FINALISTS], *sorted(near, key=warm_times.__getitem__)[: FINALISTS // 2], tactics[0]]
    sides: dict[Hashable, Callable[[], float]] = {BETWEEN: in_turn.replayed(alone)}
    for tactic in dict.fromkeys(fastest):
        sides["cold", tactic] = in_turn.replayed(cold(tactic))
        sides["warm", tactic] = in_turn.replayed(warm(tactic))
    turns: dict[Any, float] = in_turn.medians(sides, ROUNDS, rotate=True)
    between = turns.pop(BETWEEN)

    def in_turns(measure: str, subtracted: float) -> dict[Tactic, float]:
        return {tactic: value - subtracted for (name, tactic), value in turns.items() if name == measure}

    return {
        "turns": _microseconds(in_turns("cold", between)),
        "warm_turns": _microseconds(in_turns("warm", 0.0)),
        "us": _microseconds(times),
        "warm_us": _microseconds(warm_times),
    }


def _microseconds(seconds: Mapping[Tactic, float]) -> dict[str, float]:
    return {str(tactic): round(value * 1e6, 2) for tactic, value in seconds.items()}


@functools.cache
def built(family: str, device: DeviceProperties) -> list[KernelRecord]:
    """The kernels of a family that are built for the device."""
    registry = contexts.current().registry
    records = [record for record in registry.route(family, device) if registry.is_built(record)]
    print(f"{len(records)} kernels of {family} are built", flush=True)
    return records


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="+", choices=KINDS, metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--skip", type=int, default=0, help="problems of the seed")
    parser.add_argument("--seconds", type=float, default=200, help="start no problem after")
    parser.add_argument(
        "--tactics", type=int, metavar="N", help="the first N tactics of the ranking alone, trees included"
    )
    parser.add_argument("--each-seconds", type=float, default=2, help="of a problem's tactics")
    parser.add_argument("--output", type=Path, default=Path("cold_times.jsonl"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    until, noise = time.monotonic() + options.seconds, OtherKernels()
    device = contexts.current().device(torch.cuda.current_device())
    print(device, flush=True)
    draws = {kind: KINDS[kind](options.seed) for kind in options.kinds}
    for draw in draws.values():
        for _ in range(options.skip):
            next(draw)
    with options.output.open("w", encoding="utf-8") as file:
        while time.monotonic() < until:
            for kind, draw in draws.items():
                problem = next(draw)
                try:
                    case = case_of(problem, None)
                    ranked = case.family.rank(built(case.family.name, device), case.problem, device)
                    tactics = [candidate.tactic for candidate in ranked[: options.tactics]]
                    if options.tactics is None:
                        tactics = worth_timing(ranked, FACTOR, EACH)
                    deadline = time.monotonic() + options.each_seconds
                    row = measured(case, noise, tactics, deadline)
                except (TilewrightError, ValueError, RuntimeError, StopIteration) as error:
                    print(f"{kind} {text_of(problem)}: {str(error).splitlines()[0][:200]}", flush=True)
                    continue
                finally:
                    case = None  # type: ignore[assignment]
                    free_memory()
                row = {"kind": kind, "problem": asdict(problem), "first": str(ranked[0].tactic), **row}
                if expected := getattr(problem, "expected_m", 0):
                    row["expected_m"] = int(expected * MORE_ROWS)
                file.write(json.dumps(row) + "\n")
                file.flush()
                turns = row["turns"]
                best = min(turns, key=turns.__getitem__)
                print(
                    f"{kind} {text_of(problem)} best {turns[best]:.1f} {best} first "
                    f"{turns[row['first']] / turns[best]:.3f} {row['first']} of {len(row['us'])}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
