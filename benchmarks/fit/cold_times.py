"""Times tactics, cold and warm, on problems drawn at random, which teach a family's choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.cold_times scaled contiguous_fp8 masked_fp8 k_grouped_fp8
        --seed 21 --seconds 200 --output cold_times.jsonl

Of each problem, each built kernel's best tactics by the model and all whose estimates are near the first are
timed (with --tactics N, the first N of the ranking, which takes a third of the time) as `cold_launches.py`
does: in a CUDA graph of launches with a softmax and a layer norm over 16 MB each between them, whose own time
is subtracted. Those near the fastest are timed warm, too: launched one after another on operands that L2 does
not hold. The fastest are timed again in turn. A line of the file is a problem: microseconds by tactic on cold
code (`us`), of those timed in turn (`turns`), the same on warm code (`warm_us`, `warm_turns`), and the
model's first. With --cold, warm code is not timed.

The fastest of many times is the fastest by chance, too. With --again, those in turn are timed twice (`turns`
and `again`): the fastest by the one is compared with the first by the other.

    python -m benchmarks.fit.cold_times --judge FILE ...    # how near the first tactics are to the fastest
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from benchmarks.fit.grouped_times import worth_timing
from benchmarks.fit.lessons import read
from benchmarks.lib import machine
from benchmarks.lib.deepgemm_calls import MORE_ROWS
from benchmarks.lib.launch_cases import Case, OtherKernels, case_of
from benchmarks.lib.launch_graphs import BETWEEN, free_memory, in_rounds, queued_seconds
from benchmarks.lib.random_problems import KINDS, Drawn, listed, text_of

from tilewright import context as contexts
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.tools.timing import Replays

LAUNCHES = 8  # of a graph
PAIRS = 3  # replays of a tactic, each beside a replay of the other kernels alone
WARM_SAMPLES = 3
NEAR = 1.12  # times the fastest on cold code: tactics that are timed warm
FINALISTS = 6  # tactics that are timed again in turn: the fastest on cold code, and half as many on warm
ROUNDS = 12
BEYOND = 1.1  # a loss that is reported
FACTOR, EACH = 1.35, 2  # estimates near the first, and tactics of each kernel


def measured(
    case: Case, noise: OtherKernels, tactics: Sequence[Tactic], until: float, *, has_warm: bool, again: bool
) -> dict[str, Any]:
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
        # The other kernels' own time drifts with the clocks by more than some launches take, so a replay of
        # these alone follows each replay of the tactic.
        samples = queued_seconds([cold(tactic), alone] * PAIRS)
        pairs = zip(samples[::2], samples[1::2], strict=True)
        times[tactic] = statistics.median(total - other for total, other in pairs)
        if time.monotonic() > until:
            break
    order = sorted(times, key=times.__getitem__)
    near = [tactic for tactic in order if has_warm and times[tactic] <= NEAR * times[order[0]]]
    warm_times: dict[Tactic, float] = {}
    for tactic in near:
        warm_times[tactic] = min(queued_seconds([warm(tactic)] * WARM_SAMPLES))
    fastest = [*order[:FINALISTS], *sorted(near, key=warm_times.__getitem__)[: FINALISTS // 2], tactics[0]]
    sides: dict[tuple[str, Any], Replays] = {("cold", BETWEEN): alone}
    for tactic in dict.fromkeys(fastest):
        sides["cold", tactic] = cold(tactic)
        if has_warm:
            sides["warm", tactic] = warm(tactic)
    row = in_turns(sides) | {"us": _microseconds(times)}
    if has_warm:
        row["warm_us"] = _microseconds(warm_times)
    if again:
        row["again"] = in_turns(sides)["turns"]
    return row


def in_turns(sides: Mapping[tuple[str, Any], Replays]) -> dict[str, dict[str, float]]:
    """Microseconds of tactics timed in turn, cold (`turns`) and warm (`warm_turns`), as sides have them."""
    samples = in_rounds(sides, range(ROUNDS), [key for key in sides if key[0] == "warm"])
    medians = {key: statistics.median(seconds) for key, seconds in samples.items()}
    between = medians.pop(("cold", BETWEEN))
    cold = {tactic: value - between for (measure, tactic), value in medians.items() if measure == "cold"}
    warm = {tactic: value for (measure, tactic), value in medians.items() if measure == "warm"}
    return {"turns": _microseconds(cold)} | ({"warm_turns": _microseconds(warm)} if warm else {})


def _microseconds(seconds: Mapping[Tactic, float]) -> dict[str, float]:
    return {str(tactic): round(value * 1e6, 2) for tactic, value in seconds.items()}


@functools.cache
def built(family: str, device: DeviceProperties) -> list[KernelRecord]:
    """The kernels of a family that are built for the device."""
    registry = contexts.current().registry
    records = [record for record in registry.route(family, device) if registry.is_built(record)]
    print(f"{len(records)} kernels of {family} are built", flush=True)
    return records


def losses(row: Mapping[str, Any]) -> tuple[float, float]:
    """The first tactic's time over the fastest's: by one set of times, which says less than the truth of the
    fastest, and with the fastest picked by one set and compared by another, in both ways."""
    turns, first = row["turns"], row["first"]
    loss = turns[first] / min(turns.values())
    if "again" not in row:
        return loss, math.nan
    again = row["again"]
    crossed = [
        compared[first] / compared[min(picked, key=picked.__getitem__)]
        for picked, compared in ((turns, again), (again, turns))
    ]
    return loss, math.sqrt(crossed[0] * crossed[1])


def judgement(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines that say, for each kind, how near the first tactics are to the fastest."""
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        pairs = [losses(row) for row in rows if row["kind"] == kind]
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*pairs, strict=True)]
        beyond = statistics.fmean(loss > BEYOND for loss, _ in pairs)
        lines.append(
            f"{kind}: {len(pairs)} problems, first over fastest {means[0]:.4f} in one set of times, "
            f"{means[1]:.4f} picked by another, {beyond:.1%} beyond {BEYOND}"
        )
    return lines


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=21, help="of the random problems")
    parser.add_argument("--skip", type=int, default=0, help="problems of the seed")
    parser.add_argument("--shape", nargs="+", metavar="MxNxK", default=[], help="of dense kinds, not drawn")
    parser.add_argument("--seconds", type=float, default=200, help="start no problem after")
    parser.add_argument(
        "--tactics", type=int, metavar="N", help="the first N tactics of the ranking alone, trees included"
    )
    parser.add_argument("--each-seconds", type=float, default=2, help="of a problem's tactics")
    parser.add_argument("--cold", action="store_true", help="do not time warm code")
    parser.add_argument("--again", action="store_true", help="time the fastest twice in turn")
    parser.add_argument("--output", type=Path, default=Path("cold_times.jsonl"), help="a file of JSON lines")
    parser.add_argument("--judge", type=Path, nargs="+", metavar="FILE", help="time nothing, read these")
    options = parser.parse_args(arguments)
    if not options.judge and not (options.kinds and set(options.kinds) <= set(KINDS)):
        parser.error(f"expected kinds of {', '.join(KINDS)}, got {' '.join(options.kinds) or 'none'}")
    return options


def drawn(options: argparse.Namespace) -> Iterator[tuple[str, Drawn]]:
    """(kind, problem): those of the kinds in turn."""
    draws = {
        kind: iter(listed(kind, options.shape)) if options.shape else KINDS[kind](options.seed)
        for kind in options.kinds
    }
    for problems in zip(*draws.values(), strict=True):
        yield from zip(draws, problems, strict=True)


def row_of(kind: str, problem: Drawn, noise: OtherKernels, options: argparse.Namespace) -> dict[str, Any]:
    """A line of the file. Raises what a family or a call raises."""
    device = contexts.current().device(torch.cuda.current_device())
    case = case_of(problem, None)
    ranked = case.family.rank(built(case.family.name, device), case.problem, device)
    if not ranked:
        raise ValueError("no built kernel computes it")
    tactics = [candidate.tactic for candidate in ranked[: options.tactics]]
    if options.tactics is None:
        tactics = worth_timing(ranked, FACTOR, EACH)
    until = time.monotonic() + options.each_seconds
    times = measured(case, noise, tactics, until, has_warm=not options.cold, again=options.again)
    # Times from before kernels of grouped products had forms lack this field.
    row = {"kind": kind, "problem": asdict(problem), "forms": True, "first": str(ranked[0].tactic), **times}
    if expected := getattr(problem, "expected_m", 0):
        row["expected_m"] = int(expected * MORE_ROWS)
    return row


def progress(problem: Drawn, row: dict[str, Any]) -> str:
    turns, first = row["turns"], row["first"]
    best = min(turns, key=turns.__getitem__)
    return (
        f"{row['kind']} {text_of(problem)} best {turns[best]:.1f} {best} first "
        f"{turns[first] / turns[best]:.3f} {first} of {len(row['us'])}"
    )


def main() -> int:
    options = parsed()
    if options.judge:
        print("\n".join(judgement([row for path in options.judge for row in read(path)])))
        return 0
    machine.require_gpu()
    until, noise = time.monotonic() + options.seconds, OtherKernels()
    skipped = options.skip * len(options.kinds)
    with options.output.open("w", encoding="utf-8") as file:
        for kind, problem in itertools.islice(drawn(options), skipped, None):
            if time.monotonic() > until:
                break
            try:
                row = row_of(kind, problem, noise, options)
            except (TilewrightError, ValueError, RuntimeError) as error:
                print(f"{kind} {text_of(problem)}: {str(error).splitlines()[0][:200]}", flush=True)
                continue
            finally:
                free_memory()
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(progress(problem, row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
