"""tilewright.gemm beside cuBLAS (torch.mm, torch._scaled_mm) on shapes that nobody tuned, drawn at random.

    python benchmarks/gemm_untuned.py --dtype bf16 --output results/gemm_untuned_bf16

m is drawn log-uniformly from 1 to 8192, and is never a power of two; n and k log-uniformly from 512 to 32768,
in multiples of 64; operands have at most 2 GiB. The tactic is the runtime's own choice; no shape has a tuned
entry. Both sides are measured in turn, replay by replay: a CUDA graph of calls that take operands in turn
(cold L2), random data, medians. A ratio is cuBLAS's time over ours. Of a shape under 0.95, what tuning finds
is measured in turn with both, too: where that is 2 % quicker than the choice, the model chose wrong; else no
kernel is better. Writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import torch
from times_file import OPERANDS, described

from tilewright import context
from tilewright.ops.common.measuring import checked, make_operands
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import measuring
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.problem import Problem
from tilewright.timing import Replays
from tilewright.tuning.clock import on_gpu
from tilewright.tuning.search import search
from tilewright.types import bytes_of

MOST_BYTES = 2**31
REPLAYS = 9
WARM_SECONDS = 0.02  # of both in turn, before: float64 references, and pauses, leave other clocks
# Of calls this long, so many: after 0.02 s clocks still fell, and whoever came second was slower (of the same
# choice beside the same kernel of cuBLAS 0.92 to 1.03, where 0.1 s gave 1.02 to 1.03).
LONG_SECONDS, LONG_WARM_SECONDS = 1e-4, 0.1
HEAD_START_CYCLES = 200_000  # 0.1 ms
ENOUGH = 0.95  # a ratio that needs no cause
CHOSEN_WRONG = 1.02  # times what tuning finds


def shapes(seed: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of problems without end whose operands have elements of `size` bytes."""
    draw = random.Random(seed)

    def extent(low: int, high: int) -> int:
        return round(math.exp(draw.uniform(math.log(low), math.log(high))))

    while True:
        m, n, k = extent(1, 8192), 64 * extent(8, 512), 64 * extent(8, 512)
        if m & (m - 1) and (m + n) * k * size <= MOST_BYTES:
            yield m, n, k


def drawn(dtype: str, seed: int, *, exact: bool = False) -> Iterator[Problem]:
    """With the default output type; FP8 with fast accumulation unless it is to be exact."""
    for m, n, k in shapes(seed, bytes_of(OPERANDS[dtype])):
        yield described(dtype, m, n, k, exact=exact)


def measure(problem: Problem) -> dict[str, Any]:
    """One row: seconds of both, measured in turn. D of ours is checked first."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    choice = current.select(FAMILY, problem, device)
    operands = make_operands(measuring, problem, device)
    error = checked(operands[0], choice.tactic)
    peer_us, us = in_turn(problem, operands, [choice.tactic])
    return {
        **{"m": problem.m, "n": problem.n, "k": problem.k, "tactic": str(choice.tactic)},
        **{"source": choice.source, "us": us, "peer_us": peer_us, "ratio": round(peer_us / us, 4)},
        **{"error": error},
    }


def cause(problem: Problem, row: dict[str, Any]) -> dict[str, Any]:
    """What tuning finds for a row's problem, measured in turn with both."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    found = search(FAMILY, current.registry, problem, device, make_clock=on_gpu(FAMILY.name, device))
    assert found.tactic is not None, found.reason
    operands = make_operands(measuring, problem, device)
    peer_us, us, best_us = in_turn(problem, operands, [Tactic.parse(row["tactic"]), found.tactic])
    why = "choice" if best_us * CHOSEN_WRONG < us else "kernels"
    return {"best_tactic": str(found.tactic), "best_ratio": round(peer_us / best_us, 4), "cause": why}


def in_turn(problem: Problem, operands: list[measuring.Operands], tactics: list[Tactic]) -> list[float]:
    """Microseconds of cuBLAS and of each tactic: medians of replays that take turns."""
    peer = measuring.peer(problem)
    assert peer is not None
    _, call_peer = peer
    graphs = [Replays([lambda x=one: call_peer(x) for one in operands])]  # type: ignore[misc]
    for tactic in tactics:
        graphs.append(Replays([lambda x=one, t=tactic: x.call(t) for one in operands]))  # type: ignore[misc]
    long = max(graph.seconds() for graph in graphs) > LONG_SECONDS
    until = time.monotonic() + (LONG_WARM_SECONDS if long else WARM_SECONDS)
    while time.monotonic() < until:
        for graph in graphs:
            graph.seconds()
    rounds = [[seconds_of(graph) for graph in graphs] for _ in range(REPLAYS)]
    return [round(statistics.median(seconds) * 1e6, 3) for seconds in zip(*rounds, strict=True)]


def seconds_of(graph: Replays) -> float:
    """Of a call, by one replay. The GPU waits before: a busy host, which launches late, does not count."""
    torch.cuda._sleep(HEAD_START_CYCLES)
    return graph.seconds()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = sorted(row["ratio"] for row in rows)
    return {
        "shapes": len(ratios),
        "geomean": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4),
        "minimum": ratios[0],
        "share at 0.95": round(sum(ratio >= 0.95 for ratio in ratios) / len(ratios), 3),
        "share at 0.90": round(sum(ratio >= 0.90 for ratio in ratios) / len(ratios), 3),
        "under 0.95": ", ".join(
            f"{count} by {cause}"
            for cause, count in Counter(row.get("cause") for row in rows).items()
            if cause
        ),
        "largest error": max(row["error"] for row in rows),
    }


def markdown(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [f"# gemm {header['dtype']} beside {header['peer']}, shapes drawn at random", ""]
    lines += [f"- {key}: {value}" for key, value in header.items()]
    lines += ["", "| m | n | k | us | peer us | ratio | tactic | cause | best ratio | best tactic |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row['m']} | {row['n']} | {row['k']} | {row['us']:.2f} | {row['peer_us']:.2f} "
        f"| {row['ratio']:.3f} | `{row['tactic']}` | {row.get('cause', '')} | {row.get('best_ratio', '')} "
        f"| {row.get('best_tactic', '')} |"
        for row in sorted(rows, key=lambda row: row["ratio"])
    ]
    return "\n".join(lines) + "\n"


def clocks() -> str:
    """Of the SMs and the memory, the power that is drawn, and the temperature, now."""
    query = "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu"
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    command = ["nvidia-smi", query, "--format=csv,noheader", f"--id={index}"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16")
    parser.add_argument("--seed", type=int, default=20271)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--skip", type=int, default=0, help="so many shapes of the seed")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no shape, and look for no cause, after"
    )
    parser.add_argument("--no-causes", action="store_true", help="search for nothing better")
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    rows, before, until = [], None, time.monotonic() + arguments.seconds
    for problem in itertools.islice(
        drawn(arguments.dtype, arguments.seed), arguments.skip, arguments.skip + arguments.count
    ):
        if rows and time.monotonic() > until:
            break
        rows.append(measure(problem))
        print(json.dumps(rows[-1]), flush=True)
        before = before or clocks()  # after the first, so that they are warm
        torch.cuda.empty_cache()
    after, peer = clocks(), measuring.peer(problem)
    for row in sorted(rows, key=lambda row: row["ratio"]):
        if row["ratio"] >= ENOUGH or arguments.no_causes or time.monotonic() > until:
            break
        asked = described(arguments.dtype, row["m"], row["n"], row["k"])
        row |= cause(asked, row)  # noqa: PLW2901 (the row of `rows`)
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    header = {
        **{"dtype": arguments.dtype, "seed": arguments.seed, "peer": peer[0] if peer else "nothing"},
        **{"gpu": torch.cuda.get_device_name(), "clocks before": before, "clocks after": after},
        **{"torch": torch.__version__, "cuda": torch.version.cuda, **machine.describe("tilewright")},
        "method": f"CUDA graphs of both in turn, cold L2, median of {REPLAYS} replays, random data",
        **summary(rows),
    }
    print(json.dumps(summary(rows)))
    if arguments.output:
        machine.record_both(arguments.output, {**header, "rows": rows}, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
