"""tilewright.gemm beside cuBLAS (torch.mm, torch._scaled_mm) on shapes that nobody tuned, drawn at random.

    python benchmarks/gemm_untuned.py --dtype bf16 --output results/gemm_untuned_bf16

m is drawn log-uniformly from 1 to 8192, and is never a power of two; n and k log-uniformly from 512 to 32768,
in multiples of 64; operands have at most 2 GiB. The tactic is the runtime's own choice; no shape has a tuned
entry. Both sides are measured in turn, replay by replay: a CUDA graph of calls that take operands in turn
(cold L2), random data, medians. A ratio is cuBLAS's time over ours. Writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import torch

from tilewright import context
from tilewright.ops.common.measuring import checked
from tilewright.ops.gemm import measuring
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.problem import BYTES, FP8, Problem
from tilewright.timing import Replays

OPERANDS = {"bf16": "bf16", "f16": "f16", "fp8": "e4m3"}
MOST_BYTES = 2**31
REPLAYS = 7


def shapes(seed: int, count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of `count` problems whose operands have elements of `size` bytes."""
    draw = random.Random(seed)

    def extent(low: int, high: int) -> int:
        return round(math.exp(draw.uniform(math.log(low), math.log(high))))

    while count:
        m, n, k = extent(1, 8192), 64 * extent(8, 512), 64 * extent(8, 512)
        if m & (m - 1) and (m + n) * k * size <= MOST_BYTES:
            count -= 1
            yield m, n, k


def problems(dtype: str, seed: int, count: int) -> list[Problem]:
    """With the default output type; FP8 with fast accumulation, as the peer has it."""
    a = OPERANDS[dtype]
    d = "bf16" if a in FP8 else a
    found = shapes(seed, count, BYTES[a])
    return [Problem(m, n, k, a=a, b=a, d=d, fast_accum=a in FP8) for m, n, k in found]


def measure(problem: Problem) -> dict[str, Any]:
    """One row: seconds of both, measured in turn. D of ours is checked first."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    choice = current.select(FAMILY, problem, device)
    tactic = choice.tactic
    operands = measuring.make_operands(problem, device)
    peer = measuring.peer(problem)
    assert peer is not None
    _, call_peer = peer
    error = checked(operands[0], tactic)
    theirs = Replays([lambda x=one: call_peer(x) for one in operands])  # type: ignore[misc]
    ours = Replays([lambda x=one: x.call(tactic) for one in operands])  # type: ignore[misc]
    theirs.replay(), ours.replay()
    rounds = [(theirs.seconds(), ours.seconds()) for _ in range(REPLAYS)]
    peer_us, us = (statistics.median(seconds) * 1e6 for seconds in zip(*rounds, strict=True))
    return {
        **{"m": problem.m, "n": problem.n, "k": problem.k, "tactic": str(tactic), "source": choice.source},
        **{"us": round(us, 3), "peer_us": round(peer_us, 3), "ratio": round(peer_us / us, 4), "error": error},
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = sorted(row["ratio"] for row in rows)
    return {
        "shapes": len(ratios),
        "geomean": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4),
        "minimum": ratios[0],
        "share at 0.95": round(sum(ratio >= 0.95 for ratio in ratios) / len(ratios), 3),
        "share at 0.90": round(sum(ratio >= 0.90 for ratio in ratios) / len(ratios), 3),
        "largest error": max(row["error"] for row in rows),
    }


def markdown(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [f"# gemm {header['dtype']} beside {header['peer']}, shapes drawn at random", ""]
    lines += [f"- {key}: {value}" for key, value in header.items()]
    lines += ["", "| m | n | k | us | peer us | ratio | tactic |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row['m']} | {row['n']} | {row['k']} | {row['us']:.2f} | {row['peer_us']:.2f} "
        f"| {row['ratio']:.3f} | `{row['tactic']}` |"
        for row in sorted(rows, key=lambda row: row["ratio"])
    ]
    return "\n".join(lines) + "\n"


def _clock() -> str:
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    rows = []
    for problem in problems(arguments.dtype, arguments.seed, arguments.count):
        rows.append(measure(problem))
        print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    peer = measuring.peer(problem)
    header = {
        **{"dtype": arguments.dtype, "seed": arguments.seed, "peer": peer[0] if peer else "nothing"},
        **{"gpu": torch.cuda.get_device_name(), "SM clock at the end": _clock(), "torch": torch.__version__},
        **{"cuda": torch.version.cuda, **machine.describe("tilewright")},
        "method": f"CUDA graphs of both in turn, cold L2, median of {REPLAYS} replays, random data",
        **summary(rows),
    }
    print(json.dumps(summary(rows)))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**header, "rows": rows}, indent=1)
        arguments.output.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        arguments.output.with_suffix(".md").write_text(markdown(header, rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
