"""Times of `grouped_gemm` tactics on shapes of DeepGEMM's tests, and DeepGEMM's on the same operands: what
the cost model is fitted to, and what the set of tiles is chosen by.

    mkdir -p tiles/specs; cp benchmarks/specs/sm90_grouped_gemm_tiles.yaml tiles/specs
    tilewright generate --root tiles; tilewright build --root tiles
    export TILEWRIGHT_GENERATED=tiles/generated:only
    python -m benchmarks.fit.grouped_times [KIND ...] --seconds 200 --output grouped_times.json

Of each problem, the tactics of built kernels that the model puts within --factor of its first are timed, and
at least the --each best of every kernel, each by a CUDA graph of calls that take operands in turn (cold L2);
of the two fastest every order of tiles, too. The fastest are timed again by turns with DeepGEMM. A line of
the file is a problem: microseconds by tactic, which of them were taken by turns, the model's first, and
DeepGEMM's time.

    python -m benchmarks.fit.grouped_times --table FILE... > results/grouped_vs_deepgemm_times.md

says, on any machine, what the runtime chooses for an H200 now, by the times of those files.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine
from benchmarks.lib.deepgemm_calls import MORE_ROWS, call_deep_gemm, with_whole_blocks
from benchmarks.lib.grouped_problems import ALLOTTED, DENSE, shapes

from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.errors import WrongResultError
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.measuring import Operands
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned import Tuned
from tilewright.selection.weighing import Candidate
from tilewright.tools import timing
from tilewright.tools.measuring import copies
from tilewright.tools.timing import Replays

SCREENED = 3  # replays of a tactic
STOP, FORGET = 1.2, 1.5  # behind the fastest, at which a time is not taken again, and its graph is let go
FAR = 3  # kernels slower than this times the model's first are not tried
FINALISTS, ROUNDS = 6, 5
MOST_BYTES = 8 * 10**9  # of all sets of operands
MOST_SETS = 32


def dense(m: int) -> Iterator[Problem]:
    for n, k in DENSE:
        yield Problem(m, n, k)


def gradients() -> Iterator[Problem]:
    for n, k in DENSE:
        yield Problem(n, k, 4096, d="f32", scales="1x128", c=True)


def contiguous(a: str) -> Iterator[Problem]:
    scales = "128x128" if a == "e4m3" else "none"
    for shape in shapes("contiguous"):
        g, m = shape["g"], shape["g"] * shape["m"]
        yield Problem(m, shape["n"], shape["k"], g, a=a, b=a, scales=scales, grouping="row_index")


def masked(a: str) -> Iterator[Problem]:
    scales = "128x128" if a == "e4m3" else "none"
    for shape in shapes("masked"):
        kind = Problem(
            ALLOTTED, shape["n"], shape["k"], shape["g"], a=a, b=a, scales=scales, grouping="rows_valid"
        )
        yield replace(kind, expected_m=shape["m"])


def k_grouped() -> Iterator[Problem]:
    for shape in shapes("k_grouped"):
        kind = Problem(
            shape["m"], shape["n"], shape["g"] * shape["k"], shape["g"], d="f32", scales="1x128", c=True
        )
        yield replace(kind, grouping="k_sizes")


def k_grouped_bf16() -> Iterator[Problem]:
    for fp8 in k_grouped():
        yield replace(fp8, a="bf16", b="bf16", scales="none", layout="nt")


KINDS: dict[str, Callable[[], Iterator[Problem]]] = {
    "dense_many": lambda: dense(4096),
    "dense_some": lambda: dense(128),
    "dense_one": lambda: dense(1),
    "contiguous_fp8": lambda: contiguous("e4m3"),
    "masked_fp8": lambda: masked("e4m3"),
    "k_grouped": k_grouped,
    "k_grouped_bf16": k_grouped_bf16,
    "gradients": gradients,
    "contiguous_bf16": lambda: contiguous("bf16"),
    "masked_bf16": lambda: masked("bf16"),
}


class Bench:
    """One problem's operands, and graphs of calls on them."""

    def __init__(self, problem: Problem, theirs: Any, most_sets: int) -> None:
        self.theirs, self.pause = theirs, 0.0
        first = measuring.make(problem, torch.Generator("cuda").manual_seed(0))
        if problem.grouping == "k_sizes":  # multiples of what DeepGEMM takes, which ours halve in BF16
            first = with_whole_blocks(first)
        self.sizes = first.group_k.tolist() if problem.grouping == "k_sizes" else []
        size = sum(tensor.numel() * tensor.element_size() for tensor in (first.a, first.b, first.out))
        l2 = torch.cuda.get_device_properties().L2_cache_size
        count = min(most_sets, max(2, min(timing.rotations(problem.bytes, l2), MOST_BYTES // size)))
        self.operands = copies(first, count)
        for operands in self.operands:
            if problem.c:
                operands.c = operands.out.zero_()  # added to where it lies
        self.graphs: dict[Tactic | None, Replays] = {}

    def seconds(self, tactic: Tactic | None) -> float:
        """Seconds of a call, from one replay. Without a tactic, DeepGEMM's call."""
        graph = self.graphs.get(tactic)
        if graph is None:
            pool = next(iter(self.graphs.values())).pool if self.graphs else None
            calls = [lambda x=x: self.call(x, tactic) for x in self.operands]
            graph = self.graphs[tactic] = Replays(calls, warm_up=1, pool=pool)
            graph.replay()
        if self.pause:
            torch.cuda.synchronize()
            time.sleep(self.pause)
        return graph.seconds()

    def call(self, x: Operands, tactic: Tactic | None) -> None:
        if tactic is None:
            call_deep_gemm(self.theirs, x, self.sizes)
        else:
            x.call(tactic)


def worth_timing(ranked: Sequence[Candidate], factor: float, of_kernel: int) -> list[Tactic]:
    """Returns every kernel's best tactics, then those whose estimates are near the best one."""
    taken = collections.Counter[str]()
    best, near = [], []
    limit = ranked[0].estimate.seconds * factor
    for candidate in ranked:
        taken[candidate.record.name] += 1
        if (
            taken[candidate.record.name] <= of_kernel
            and candidate.estimate.seconds <= FAR * ranked[0].estimate.seconds
        ):
            best.append(candidate.tactic)
        elif candidate.estimate.seconds <= limit:
            near.append(candidate.tactic)
    return [*best, *near]


def screened(bench: Bench, tactics: Sequence[Tactic], until: float) -> dict[Tactic, float]:
    """Seconds of a call, roughly."""
    times: dict[Tactic, float] = {}
    best = math.inf
    for tactic in tactics:
        samples = [bench.seconds(tactic)]
        while len(samples) < SCREENED and min(samples) < STOP * best:
            samples.append(bench.seconds(tactic))
        times[tactic] = min(samples)
        best = min(best, times[tactic])
        if samples[0] > FORGET * best:
            del bench.graphs[tactic]
        if time.monotonic() > until:
            break
    return times


def measured(
    problem: Problem,
    ranked: Sequence[Candidate],
    theirs: Any,
    tactics: list[Tactic],
    *,
    seconds: float,
    pause: float,
) -> dict[str, Any]:
    bench = Bench(problem, theirs, MOST_SETS)
    times = screened(bench, tactics, time.monotonic() + seconds)
    best = sorted(times, key=times.__getitem__)[:2]
    more = [tactic for fast in best for tactic in FAMILY.variants(fast) if tactic not in times]
    times |= screened(bench, more, time.monotonic() + seconds)
    bench.pause = pause
    fastest = sorted(times, key=times.__getitem__)
    wrong = check(bench.operands[0], fastest[0])
    finalists: list[Tactic | None] = [
        None,
        *dict.fromkeys([*fastest[:FINALISTS], ranked[0].tactic]),
    ]
    rounds = [[bench.seconds(tactic) for tactic in finalists] for _ in range(ROUNDS)]
    turns = {
        tactic: statistics.median(samples)
        for tactic, samples in zip(finalists, zip(*rounds, strict=True), strict=True)
    }
    return {
        "problem": asdict(problem),
        "deep_gemm": round(turns[None] * 1e6, 3),
        "first": str(ranked[0].tactic),
        "turns": {str(tactic): round(time * 1e6, 3) for tactic, time in turns.items() if tactic is not None},
        "us": {str(tactic): round(time * 1e6, 3) for tactic, time in times.items()},
        **({"wrong": wrong} if wrong else {}),
    }


def check(operands: Operands, tactic: Tactic) -> str:
    """The fault of the tactic's result, or an empty text."""
    if operands.c is not None:
        operands = operands.changed(c=torch.randn_like(operands.c))
    operands.poison()
    operands.call(tactic)
    try:
        operands.check()
    except WrongResultError as error:
        return f"{tactic}: {error}"
    return ""


def table(paths: Sequence[Path]) -> str:
    """DeepGEMM's time over that of the tactic that is chosen now with all kernels built, if it was timed."""
    registry = Registry()
    tuned = Tuned(FAMILY, registry, H200)
    lines = [
        "| kind | shape | DeepGEMM us | chosen us | ratio | fastest | tactic |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = collections.defaultdict(list)
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            problem = Problem(**row["problem"])
            problem = replace(problem, expected_m=int(problem.expected_m * MORE_ROWS))
            records = list(registry.kernels("grouped_gemm"))
            chosen = str(tuned.exact(problem) or FAMILY.rank(records, problem, H200)[0].tactic)
            us = row["turns"].get(chosen) or row["us"].get(chosen)
            best = row["deep_gemm"] / min(row["turns"].values())
            shape = "x".join(str(row["problem"][name]) for name in ("groups", "m", "n", "k"))
            own = row["deep_gemm"] / us if us else None
            if own:
                ratios[row["kind"]].append(own)
            by = "by turns" if chosen in row["turns"] else "by itself"
            lines.append(
                f"| {row['kind']} | {shape} | {row['deep_gemm']:.1f} | {f'{us:.1f}' if us else ''} | "
                f"{f'{own:.3f} {by}' if own else ''} | {best:.3f} | {_short(chosen)} |"
            )
    head = ["| kind | shapes | geomean | least |", "|---|---|---|---|"]
    for kind, speeds in ratios.items():
        head.append(
            f"| {kind} | {len(speeds)} | {statistics.geometric_mean(speeds):.3f} | {min(speeds):.3f} |"
        )
    return "\n".join([*head, "", *lines]) + "\n"


def _short(tactic: str) -> str:
    return tactic.removeprefix("grouped_gemm_sm90_")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument(
        "--factor",
        type=float,
        default=1.3,
        help="times the model's first: tactics that are estimated longer are not timed",
    )
    parser.add_argument("--each", type=int, default=2, help="tactics of each kernel that are timed")
    parser.add_argument("--each-seconds", type=float, default=3, help="of a problem's tactics")
    parser.add_argument("--seconds", type=float, default=200, help="start no problem after this time")
    parser.add_argument("--pause", type=float, default=0, help="seconds before each replay by turns")
    parser.add_argument("--part", default="1/1", help="I/N: every Nth problem, from the Ith on")
    parser.add_argument("--warm", action="store_true", help="have DeepGEMM compile, and time nothing")
    parser.add_argument(
        "--output", type=Path, default=Path("grouped_times.json"), help="a file of JSON lines"
    )
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="print what is chosen now")
    options = parser.parse_args()
    if options.table:
        print(table(options.table), end="")
        return 0
    machine.require_gpu()
    import deep_gemm as theirs  # noqa: PLC0415 (--help works without it)

    part, parts = map(int, options.part.split("/"))
    problems = [(kind, problem) for kind in options.kinds or KINDS for problem in KINDS[kind]()][
        part - 1 :: parts
    ]
    if options.warm:
        for kind, problem in problems:
            bench = Bench(problem, theirs, 1)
            bench.call(bench.operands[0], None)
            torch.cuda.synchronize()
            print(kind, problem, flush=True)
        return 0
    until = time.monotonic() + options.seconds
    current = contexts.current()
    device = current.device(torch.cuda.current_device())
    registry = current.registry
    records = [record for record in registry.kernels("grouped_gemm") if registry.is_built(record)]
    print(f"{device}\n{len(records)} kernels are built", flush=True)
    with options.output.open("w", encoding="utf-8") as file:
        for kind, problem in problems:
            if time.monotonic() > until:
                print("the time is over")
                return 0
            asked = replace(problem, expected_m=int(problem.expected_m * MORE_ROWS))
            ranked = FAMILY.rank(records, asked, device)
            if not ranked:
                continue
            tactics = worth_timing(ranked, options.factor, options.each)
            times = measured(
                problem, ranked, theirs, tactics, seconds=options.each_seconds, pause=options.pause
            )
            row = {"kind": kind, **times}
            torch.cuda.empty_cache()
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(progress(row, until - time.monotonic()), flush=True)
    return 0


def progress(row: dict[str, Any], left: float) -> str:
    peer, turns = row["deep_gemm"], row["turns"]
    best = min(turns, key=turns.__getitem__)
    problem = row["problem"]
    shape = [problem[name] for name in ("groups", "m", "n", "k", "expected_m")]
    return (
        f"{row['kind']} {shape} DeepGEMM {peer:.2f} best {peer / turns[best]:.3f} {best} "
        f"chosen {peer / turns[row['first']]:.3f} {row['first']} of {len(row['us'])}, {left:.0f} s left"
        f"{' WRONG ' + str(row['wrong']) if 'wrong' in row else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
