"""Single launches beside the peer, warm and cold, on problems drawn at random.

    TILEWRIGHT_TUNED= TILEWRIGHT_JIT=0 python -m benchmarks.compare.cold_launches scaled contiguous_fp8
        --count 150 --seed 1 --output benchmarks/results/cold_launches

Two measures in one run, on the same operands. CUDA graphs of all sides are replayed in rounds, without a
pause, another side first in each round:

- warm: one kernel launched again and again on operands that are taken in turn. Operands are not in L2, the
  kernel's code is in the instruction caches.
- cold: before each launch a softmax and a layer norm over 16 MB each, which replace code and data in the
  caches, as other kernels of a model do. Their own time, measured alone in the same rounds, is subtracted.

Dense products (bf16, f16, fp8; bf16_wide and f16_wide in four layouts) run beside cuBLAS; scaled,
contiguous, masked and k_grouped products beside DeepGEMM (`deep_gemm`, imported from the environment);
einsum and reduced beside DeepGEMM and torch. Results are compared first. Writes OUTPUT.md.

A ratio is the best peer's time over ours: the median of the ratios of all rounds. Its error is half of the
interval in which the true median lies in about 95 % of cases. Short products have more rounds until the error
is below 2 % (`launch_graphs.py`). The error says how sure the ratio is in this run. It leaves out what all
rounds share, such as where operands lie in memory, and the other kernels' time, which is subtracted.

With --check, results are compared and nothing is timed: DeepGEMM compiles its kernels then. Several processes
with --part 1/N to N/N compile at once. With --tactics N, the model's first N tactics of each problem are
timed, too (with --choices COUNT, of the first COUNT problems of each kind): `choice` is the best tactic's
time over the time of the runtime's own choice.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.lib import machine, ratios
from benchmarks.lib.launch_cases import Call, Case, case_of
from benchmarks.lib.launch_graphs import (
    ERROR,
    LEAST_ROUNDS,
    MEASURES,
    MORE_SECONDS,
    ROUNDS,
    Between,
    Graphs,
    free_memory,
    queued_seconds,
)
from benchmarks.lib.random_problems import KINDS, LISTED, Drawn, listed, text_of

from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.tools.timing import Replays

SHORTLIST = 16  # sides that are screened in both measures, of more: those fastest in a short warm graph
SHORT_LAUNCHES = 8  # of that graph
FINALISTS = 4  # tactics of each measure
NOT_COUNTED = "problems of the seed, by their number from 0, that do not count: those that a peer never ends"
DEEP_GEMM_KINDS = ("scaled", "contiguous", "masked", "k_grouped", "reduced", "einsum")


def rows_of(
    kind: str, problem: str, tactic: str | None, times: Mapping[tuple[str, Hashable], Sequence[float]]
) -> list[dict[str, Any]]:
    """A row for each measure. `times`: microseconds of each round by measure and side. Sides are "ours",
    peers by their names, and tactics."""
    rows = []
    for measure in dict.fromkeys(measure for measure, _ in times):
        rounds = {side: of_side for (each, side), of_side in times.items() if each == measure}
        medians = {side: round(statistics.median(of_side), 3) for side, of_side in rounds.items()}
        us = medians["ours"]
        peers = {side: time for side, time in medians.items() if isinstance(side, str) and side != "ours"}
        peer = min(peers, key=peers.__getitem__)
        ratio, error = ratios.of_rounds(rounds[peer], rounds["ours"])
        row = {
            **{"measure": measure, "kind": kind, "problem": problem, "tactic": tactic, "us": us},
            **{"peer": peer, "peer_us": peers[peer], "ratio": round(ratio, 4), "error": round(error, 4)},
            "rounds": len(rounds["ours"]),
        }
        tactics = {side: time for side, time in medians.items() if isinstance(side, Tactic)}
        if tactics:
            best = min(tactics, key=tactics.__getitem__)
            row |= {
                "best_tactic": str(best),
                "best_us": tactics[best],
                "choice": round(ratios.of_rounds(rounds[best], rounds["ours"])[0], 4),
            }
        rows.append(row)
    return rows


def measure(
    kind: str, problem: Drawn, case: Case, between: Between, measures: Sequence[str], *, tactics: int
) -> list[dict[str, Any]]:
    """The rows of a problem, whose first `tactics` tactics are timed, too. Raises ValueError if a result is
    wrong or a time is noise."""
    case.check()
    graphs = Graphs(case, between, measures)
    graphs.add("ours", case.ours)
    for peer, call in case.peers.items():
        graphs.add(peer, call)
    if tactics and case.family is not None:
        add_best(graphs, {tactic: call_of(tactic) for tactic in case.tactics()[:tactics]}, case)
    return rows_of(kind, text_of(problem), case.choice(), graphs.microseconds())


def add_best(graphs: Graphs, calls: Mapping[Hashable, Call], case: Case) -> None:
    """Adds the fastest of the calls in each measure, by a few replays of each, if their result is right."""
    screened = {}
    for side in shortlist(calls, case):
        graphs.add(side, calls[side])
        screened[side] = graphs.screened(side)
        graphs.remove(side)
    for side in finalists(screened):
        if case.is_right(calls[side]):
            graphs.add(side, calls[side])


def shortlist(calls: Mapping[Hashable, Call], case: Case) -> list[Hashable]:
    """The sides that are worth screening: all, or of many the fastest in a few warm launches."""
    if len(calls) <= SHORTLIST:
        return list(calls)
    rough = {side: short_time(case.calls(call, SHORT_LAUNCHES)) for side, call in calls.items()}
    return sorted(rough, key=rough.__getitem__)[:SHORTLIST]


def short_time(calls: Sequence[Callable[[], Any]]) -> float:
    return min(queued_seconds([Replays(calls, warm_up=1, wait=False)] * 2))


def call_of(tactic: Tactic) -> Call:
    return lambda operands: operands.call(tactic)


def finalists(screened: Mapping[Hashable, Mapping[str, float]]) -> list[Hashable]:
    """The fastest sides of each measure, each once."""
    fastest: dict[Hashable, None] = {}
    for measure in MEASURES:
        if not all(measure in times for times in screened.values()):
            continue
        order = sorted(screened, key=lambda side: screened[side][measure])
        fastest |= dict.fromkeys(order[:FINALISTS])
    return list(fastest)


def page(head: dict[str, Any], rows: list[dict[str, Any]], failed: list[str]) -> str:
    lines = [
        "# Single launches beside the peer, warm and cold",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. Measures: warm "
        "(one kernel again and again, operands in turn) and cold (a softmax and a layer norm over 16 MB "
        "before each launch, their time subtracted); "
        f"sides in turn, {ROUNDS} rounds (of long products fewer, at least {LEAST_ROUNDS}), and more until "
        f"the error is below {ERROR * 100:.0f} % or they take {MORE_SECONDS} s. A ratio is the best peer's "
        "time over ours, by the median of the rounds; its error is half of its 95 % interval. *Unsure* are "
        "ratios whose interval holds 0.95; they count in the shares as they are. `choice` is the best "
        "tactic's time over that of the runtime's own choice.",
        "",
    ]
    summaries = ratios.summaries(rows, ("kind", "measure"))
    if summaries:
        lines += [*ratios.table(list(summaries[0]), [[*each.values()] for each in summaries]), ""]
    columns = ["kind", "measure", "problem", "us", "peer", "peer_us", "ratio", "error", "tactic"]
    if any("choice" in row for row in rows):
        columns += ["choice", "best_tactic", "best_us"]
    ordered = sorted(rows, key=lambda row: (row["kind"], row["measure"], row["ratio"]))
    lines += ratios.table(columns, [[row.get(name) for name in columns] for row in ordered])
    lines += ["", "Not measured:", "", *(f"- {line}" for line in failed)] if failed else []
    return "\n".join(lines) + "\n"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="+", choices=KINDS, metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--count", type=int, default=150, help="problems of each kind")
    parser.add_argument("--skip", type=int, default=0, help="problems of the seed")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    parser.add_argument("--leave-out", type=int, nargs="+", default=[], metavar="NUMBER", help=NOT_COUNTED)
    parser.add_argument("--shape", nargs="+", metavar="MxNxK", help=f"of {', '.join(LISTED)}: not random")
    parser.add_argument(
        "--part",
        type=ratios.part_of,
        default=(1, 1),
        metavar="I/N",
        help="every Nth problem, beginning with the Ith",
    )
    parser.add_argument("--check", action="store_true", help="compare results, and time nothing")
    parser.add_argument("--tactics", type=int, default=0, metavar="N", help="tactics of each problem to time")
    parser.add_argument("--choices", type=int, metavar="COUNT", help="problems of each kind with --tactics")
    parser.add_argument(
        "--measures", nargs="+", choices=MEASURES, default=MEASURES, help="both, if not given"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def numbered(kind: str, options: argparse.Namespace) -> Iterator[Drawn]:
    """The seed's problems of a kind, without end and without those that `--leave-out` names."""
    problems = enumerate(KINDS[kind](options.seed))
    return (problem for number, problem in problems if number not in options.leave_out)


def problems(options: argparse.Namespace) -> list[tuple[str, Drawn]]:
    """The problems to measure, each with its kind. Kinds take turns, so that a run that ends early has
    problems of each."""
    part, parts = options.part
    of_kind = {
        kind: listed(kind, options.shape)
        if options.shape
        else itertools.islice(numbered(kind, options), options.skip, options.skip + options.count)
        for kind in options.kinds
    }
    turns = zip(*of_kind.values(), strict=True)
    return [pair for turn in turns for pair in zip(of_kind, turn, strict=True)][part - 1 :: parts]


def main() -> int:
    options = parsed()
    machine.require_gpu()
    needed = any(kind.startswith(DEEP_GEMM_KINDS) for kind in options.kinds)
    theirs = importlib.import_module("deep_gemm") if needed else None
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    until, between = time.monotonic() + options.seconds, Between()
    measured = collections.Counter[str]()
    busy = False  # whether the GPU is, with a launch that does not end
    for kind, problem in problems(options):
        if time.monotonic() > until:
            failed.append(f"{kind} {text_of(problem)}: the time was over")
            continue
        try:
            if options.check:
                case_of(problem, theirs, sets=1).check()
                continue
            measured[kind] += 1
            chosen_alone = options.choices is not None and measured[kind] > options.choices
            of_problem = measure(
                *(kind, problem, case_of(problem, theirs), between, options.measures),
                tactics=0 if chosen_alone else options.tactics,
            )
            rows += of_problem
            print(json.dumps(of_problem), flush=True)
        except TimeoutError as error:
            failed.append(f"{kind} {text_of(problem)}: {error}; nothing after it was measured")
            print(failed[-1], flush=True)
            busy = True
            break
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed.append(f"{kind} {text_of(problem)}: {str(error).splitlines()[0][:200]}")
            print(failed[-1], flush=True)
        finally:
            free_memory()
    print(json.dumps(ratios.summaries(rows, ("kind", "measure")), indent=1))
    if options.output and rows:
        head: dict[str, Any] = machine.gpu_run("benchmarks.compare.cold_launches")
        machine.write_rows(
            options.output,
            head | {"measures": options.measures, "seed": options.seed, "not_measured": failed},
            rows,
        )
        machine.write_page(options.output, page(head, rows, failed))
    if busy:
        sys.stdout.flush()
        os._exit(1)  # an ordinary exit would wait for the GPU
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
