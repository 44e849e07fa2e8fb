"""tilewright.gemm of 1 to 16 rows beside a copy of as many bytes, and beside cuBLAS.

    python -m benchmarks.compare.gemm_few_rows --dtype bf16 --output benchmarks/results/gemm_few_rows_bf16

Such products read B once, so that memory bounds them. For each m, n and k are drawn at random: log-uniformly
from 512 to 32768, in multiples of 64 (no time of seed 2027 was used for fitting). The tactic is the runtime's
own choice, and D is checked against float64 first. The sides take turns, replay by replay: CUDA graphs of
calls on operands that L2 does not hold, medians. The copy reads half of a product's bytes and writes the
other half.

The aim for more than 128 MB is 90 % of the copy's bandwidth. For less, it is 4 us more than the bytes take at
the highest rate that any call of the run reached (reading alone is faster than a copy). Writes OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine
from benchmarks.lib.gemm_beside_cublas import by_turns, chosen
from benchmarks.lib.gemm_problems import OPERANDS, described, log_uniform
from benchmarks.lib.in_turn import copy_of

from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import Problem
from tilewright.tools.timing import Replays

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
SEED = 2027
LARGE_BYTES = 128 << 20
LARGE_SHARE = 0.9
SMALL_SECONDS = 4e-6
SIDES = ("us", "copy us", "peer us")


def problems(dtype: str, each: int) -> Iterator[Problem]:
    draw = random.Random(SEED)
    for _ in range(each):
        for m in ROWS:
            n, k = (64 * log_uniform(draw, 8, 512) for _ in "nk")
            yield described(dtype, m, n, k)


def measure(problem: Problem) -> dict[str, Any]:
    choice = chosen(problem)
    peer = measuring.peer(problem)
    assert peer is not None
    _, call_peer = peer
    sides: dict[str, list[Any]] = {
        "us": [lambda x=operand: x.call(choice.tactic) for operand in choice.operands],
        "copy us": [copy_of(problem.bytes) for _ in choice.operands],
        "peer us": [lambda x=operand: call_peer(x) for operand in choice.operands],
    }
    times = by_turns([Replays(calls) for calls in sides.values()])
    return {
        **{"m": problem.m, "n": problem.n, "k": problem.k, "bytes": problem.bytes},
        **dict(zip(sides, times, strict=True)),
        **{"tactic": str(choice.tactic), "error": choice.error},
    }


def judge(rows: list[dict[str, Any]]) -> float:
    """Adds what is asked of each row and whether it has it; the highest bytes a second of any call."""
    bandwidth = max(row["bytes"] / min(row[side] for side in SIDES) * 1e6 for row in rows)
    for row in rows:
        row["TB/s"] = round(row["bytes"] / row["us"] * 1e-6, 3)
        row["of copy"] = round(row["copy us"] / row["us"], 3)
        row["over bytes us"] = round(row["us"] - row["bytes"] / bandwidth * 1e6, 2)
        row["ratio"] = round(row["peer us"] / row["us"], 3)
        row["held"] = (
            row["of copy"] >= LARGE_SHARE
            if row["bytes"] > LARGE_BYTES
            else row["over bytes us"] <= SMALL_SECONDS * 1e6
        )
    return bandwidth


def summary(rows: list[dict[str, Any]], bandwidth: float) -> dict[str, Any]:
    large = [row for row in rows if row["bytes"] > LARGE_BYTES]
    small = [row for row in rows if row["bytes"] <= LARGE_BYTES]
    totals: dict[str, Any] = {"highest rate": f"{bandwidth * 1e-12:.3f} TB/s"}
    if large:
        held, least = sum(row["held"] for row in large), min(row["of copy"] for row in large)
        totals["beyond 128 MB"] = (
            f"{held} of {len(large)} have {LARGE_SHARE} of a copy's bandwidth, {least} least"
        )
    if small:
        held, most = sum(row["held"] for row in small), max(row["over bytes us"] for row in small)
        totals["up to 128 MB"] = f"{held} of {len(small)} within 4 us of their bytes' time, {most} us at most"
    ratios = [row["ratio"] for row in rows]
    geomean = statistics.geometric_mean(ratios)
    return totals | {"of cuBLAS's speed": f"{geomean:.3f} in geomean, {min(ratios):.3f} at least"}


COLUMNS = (
    "m",
    "n",
    "k",
    "us",
    "TB/s",
    "copy us",
    "of copy",
    "over bytes us",
    "peer us",
    "ratio",
    "held",
    "tactic",
)


def markdown(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [
        f"# gemm of few rows, {header['dtype']}",
        "",
        *(f"- {key}: {value}" for key, value in header.items()),
    ]
    lines += ["", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(str(row[column]) for column in COLUMNS)} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16", help="types of the operands")
    parser.add_argument("--each", type=int, default=5, help="problems of each m")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no problem later than this")
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    machine.require_gpu()
    rows: list[dict[str, Any]] = []
    before, until = machine.clocks(), time.monotonic() + arguments.seconds
    for problem in problems(arguments.dtype, arguments.each):
        if rows and time.monotonic() > until:
            break
        rows.append(measure(problem))
        print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    totals = summary(rows, judge(rows))
    header = {
        **{
            "measure": "warm",
            "dtype": arguments.dtype,
            "problems": len(rows),
            "gpu": torch.cuda.get_device_name(),
        },
        **{"clocks before": before, "clocks after": machine.clocks(), "torch": torch.__version__},
        **{"date": machine.describe()["date"], **totals},
    }
    print(json.dumps(totals))
    if arguments.output:
        machine.write_page(arguments.output, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
