"""Dense products beside every algorithm that cuBLASLt's heuristic lists, on shapes that nobody tuned.

    TILEWRIGHT_TUNED= TILEWRIGHT_JIT=0 python -m benchmarks.compare.every_algorithm bf16 fp8
        --seed 20281 --count 200 --seconds 60 --output benchmarks/results/every_algorithm

Problems are those of gemm_untuned.py (layout tn; types take turns). For each one:

1. Torch's call and each algorithm are replayed a few times in short CUDA graphs.
2. The fastest FINALISTS of the algorithms, torch's call and our own choice are measured in turn: CUDA graphs
   of calls that take operands in turn (cold L2), random data, medians. If the result of an algorithm differs
   from ours by more than rounding, the problem counts as not measured.

`ratio` is the time of the fastest peer over ours, `torch` the time of torch's call over ours. Writes
OUTPUT.md and OUTPUT.json. Problems that OUTPUT.json has already are not measured again, so a run can be
continued.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import cublaslt, in_turn, machine, ratios
from benchmarks.lib.gemm_problems import OPERANDS, drawn
from benchmarks.lib.launch_cases import TOLERANCES, relative_difference
from benchmarks.lib.launch_graphs import free_memory

from tilewright import context
from tilewright.errors import TilewrightError
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.tools.measuring import make_operands, spread
from tilewright.tools.timing import Replays

OURS, TORCH = "ours", "torch"
FINALISTS = 3  # algorithms that are measured in turn with ours
SHORT_CALLS, SHORT_REPLAYS = 6, 3  # of the graphs that decide which they are
LONG_CALLS = 2  # of these graphs, for long products
ROUNDS, LEAST_ROUNDS = 9, 5  # replays of each side in turn; of long graphs fewer
MOST_SECONDS = 0.15  # of all those replays, which decides how many there are
# All sides in turn, before they are measured. Long products lower the clock, and it takes them longer to.
WARM_SECONDS, LONG_WARM_SECONDS = 0.01, 0.04
LONG_SECONDS = 1e-4

Call = Callable[[measuring.Operands], Any]


def sides_of(problem: Problem, operands: Sequence[measuring.Operands]) -> dict[str, Call]:
    """Our choice, torch's call, and the algorithms of cuBLASLt that run, by their places in its list."""
    current = context.current()
    choice = current.select(FAMILY, problem, current.device(torch.cuda.current_device()))
    peer = measuring.peer(problem)
    assert peer is not None, f"internal error, please report: torch has no op for {problem}"
    first = operands[0]
    product = cublaslt.Product(first.a, first.b, first.out)
    calls: dict[str, Call] = {OURS: lambda x: x.call(choice.tactic), TORCH: peer[1]}
    for place, algorithm in enumerate(product.algorithms):
        call = product.call(algorithm)
        if accepts(call, first):
            calls[str(place)] = call
    return calls


def accepts(call: Call, operands: measuring.Operands) -> bool:
    try:
        call(operands)
    except RuntimeError:
        return False
    return True


def finalists(seconds: Mapping[str, float]) -> list[str]:
    """The algorithms that are fastest in short graphs, the fastest first."""
    return sorted((side for side in seconds if side not in (OURS, TORCH)), key=seconds.__getitem__)[
        :FINALISTS
    ]


def screened(calls: Mapping[str, Call], operands: Sequence[measuring.Operands]) -> dict[str, float]:
    """Rough seconds of each side."""
    alone = graph_of(calls[OURS], operands[:1])
    few = operands[: LONG_CALLS if alone.seconds() > LONG_SECONDS else SHORT_CALLS]
    graphs = {side: graph_of(call, few) for side, call in calls.items()}
    return {side: min(graph.seconds() for _ in range(SHORT_REPLAYS)) for side, graph in graphs.items()}


def graph_of(call: Call, operands: Sequence[measuring.Operands]) -> Replays:
    return Replays(
        [functools.partial(call, operand) for operand in operands], warm_up=1, pool=_pool(), wait=False
    )


@functools.cache
def _pool() -> torch.cuda.MemPool:
    """The memory of all graphs: no two of them are replayed at the same time."""
    return torch.cuda.MemPool()


def compared(calls: Mapping[str, Call], operands: measuring.Operands) -> None:
    """Raises ValueError if the result of a side differs from ours by more than rounding."""
    expected = result(calls[OURS], operands)
    for side, call in calls.items():
        difference = relative_difference(result(call, operands), expected)
        if not difference <= TOLERANCES["cublas"]:  # a NaN fails
            raise ValueError(
                f"{side} differs from ours by {difference:.2e}, {TOLERANCES['cublas']:.0e} is allowed"
            )


def result(call: Call, operands: measuring.Operands) -> torch.Tensor:
    """Some rows of what a call computes."""
    operands.poison()
    returned = call(operands)
    written = returned if isinstance(returned, torch.Tensor) else operands.out
    return written[spread(operands.problem.m)].clone()


def microseconds(calls: Mapping[str, Call], operands: Sequence[measuring.Operands]) -> dict[str, float]:
    """The median time of each side, in turn."""
    graphs = {side: graph_of(call, operands) for side, call in calls.items()}
    of_round = sum(graph.seconds() * graph.calls for graph in graphs.values())
    long = graphs[OURS].seconds() > LONG_SECONDS
    until = time.monotonic() + (LONG_WARM_SECONDS if long else WARM_SECONDS)
    while time.monotonic() < until:
        for graph in graphs.values():
            graph.seconds()
    # The GPU waits before each replay, so that a busy host, which launches late, does not count.
    samples = {side: functools.partial(graph.seconds, ahead=True) for side, graph in graphs.items()}
    medians = in_turn.medians(samples, rounds_of(of_round), rotate=True)
    return {side: round(seconds * 1e6, 3) for side, seconds in medians.items()}


def rounds_of(seconds: float) -> int:
    """The number of rounds to measure, if a round takes `seconds`."""
    return max(LEAST_ROUNDS, min(ROUNDS, int(MOST_SECONDS / seconds)))


def row_of(
    kind: str, problem: Problem, tactic: str, algorithms: int, times: Mapping[str, float]
) -> dict[str, Any]:
    us = times[OURS]
    peers = {side: time for side, time in times.items() if side != OURS}
    peer = min(peers, key=peers.__getitem__)
    return {
        **{"kind": kind, "m": problem.m, "n": problem.n, "k": problem.k, "tactic": tactic, "us": us},
        **{"algorithms": algorithms, "peer": peer, "peer_us": peers[peer]},
        **{"ratio": round(peers[peer] / us, 4), TORCH: round(peers[TORCH] / us, 4)},
    }


def measure(kind: str, problem: Problem) -> dict[str, Any]:
    """The row of a problem. Raises ValueError if a result is wrong."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)
    calls = sides_of(problem, operands)
    chosen = [OURS, TORCH, *finalists(screened(calls, operands))]
    measured = {side: calls[side] for side in chosen}
    compared(measured, operands[0])
    tactic = str(current.select(FAMILY, problem, device).tactic)
    return row_of(kind, problem, tactic, len(calls) - 2, microseconds(measured, operands))


def unmeasured(
    kinds: Sequence[str], seed: int, count: int, rows: Sequence[dict[str, Any]]
) -> list[tuple[str, Problem]]:
    """The problems of each kind in turn, less those that have a row."""
    measured = {key_of(row) for row in rows}
    of_kind = [itertools.islice(drawn(kind, seed), count) for kind in kinds]
    problems = [pair for turn in zip(*of_kind, strict=True) for pair in zip(kinds, turn, strict=True)]
    return [
        (kind, problem)
        for kind, problem in problems
        if (kind, problem.m, problem.n, problem.k) not in measured
    ]


def key_of(row: Mapping[str, Any]) -> Hashable:
    return tuple(row[name] for name in ("kind", "m", "n", "k"))


def page(head: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Dense products beside every algorithm that cuBLASLt lists",
        "",
        f"`{head['command']}`; {head['date']}; {head['gpu']}, driver {head['driver']},",
        f"torch {head['torch']}. Of at most {cublaslt.ASKED} algorithms that cuBLASLt's heuristic",
        "lists (numbered by their places), each is timed shortly, and the fastest "
        f"{FINALISTS} are measured in turn with torch's call and our choice, which is not tuned:",
        f"CUDA graphs, cold L2, medians of {LEAST_ROUNDS} to {ROUNDS} replays.",
        "A ratio is the peer's time over ours.",
        "",
    ]
    of_peer = [
        {"peer": peer, "kind": kind} | ratios.summary([row[name] for row in rows if row["kind"] == kind])
        for peer, name in (("fastest algorithm", "ratio"), ("torch", TORCH))
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]
    lines += [*ratios.table(list(of_peer[0]), [[*summary.values()] for summary in of_peer]), ""]
    columns = ["kind", "m", "n", "k", "us", "peer_us", "peer", "algorithms", "ratio", TORCH, "tactic"]
    ordered = sorted(rows, key=lambda row: (row["kind"], row["ratio"]))
    return (
        "\n".join([*lines, *ratios.table(columns, [[row[name] for name in columns] for row in ordered])])
        + "\n"
    )


def rows_before(output: Path | None) -> list[dict[str, Any]]:
    """The rows of an earlier run that wrote the same output."""
    if output is None or not output.with_suffix(".json").exists():
        return []
    rows: list[dict[str, Any]] = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "kinds", nargs="+", choices=OPERANDS, metavar="KIND", help=f"of {', '.join(OPERANDS)}"
    )
    parser.add_argument("--count", type=int, default=200, help="problems of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after")
    parser.add_argument("--output", type=Path, help="without extension")
    options = parser.parse_args()
    machine.require_gpu()
    until = time.monotonic() + options.seconds
    rows, failed = rows_before(options.output), 0
    for kind, problem in unmeasured(options.kinds, options.seed, options.count, rows):
        if time.monotonic() > until:
            print("the time is over", flush=True)
            break
        try:
            rows.append(measure(kind, problem))
            print(json.dumps(rows[-1]), flush=True)
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed += 1
            print(f"{kind} {problem}: {str(error).splitlines()[0][:200]}", flush=True)
        finally:
            free_memory()
    if options.output and rows:
        head = machine.gpu_run("benchmarks.compare.every_algorithm")
        machine.write_rows(options.output, head, rows)
        machine.write_page(options.output, page(head, rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
