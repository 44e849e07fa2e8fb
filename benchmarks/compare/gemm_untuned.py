"""tilewright.gemm beside cuBLAS (torch.mm, torch._scaled_mm) on shapes that nobody tuned, drawn at random.

    python -m benchmarks.compare.gemm_untuned --dtype bf16 --output results/gemm_untuned_bf16

m is drawn log-uniformly from 1 to 8192, and is never a power of two; n and k log-uniformly from 512 to 32768,
in multiples of 64; operands have at most 2 GiB. The tactic is the runtime's own choice; no shape has a tuned
entry. Both sides are measured in turn, replay by replay: a CUDA graph of calls that take operands in turn
(cold L2), random data, medians. A ratio is cuBLAS's time over ours. For a shape below 0.95, the tactic that
tuning finds is measured too, in turn with both. If it is 2 % faster than the choice, the cause is the choice;
otherwise the cause is the kernels. Writes OUTPUT.md.

With --layout and --batch, each shape has one of the layouts and batches given. Matrices of a batch have n and
k from 64 to 8192, and 512 MiB at most, D included. If m is contiguous in A, m is a multiple of 8.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine
from benchmarks.lib.gemm_beside_cublas import chosen, head, microseconds
from benchmarks.lib.gemm_problems import OPERANDS, add_kinds, drawn_as

from tilewright import context
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.tools.measuring import make_operands
from tilewright.tools.tuning.clock import on_gpu
from tilewright.tools.tuning.search import search

ENOUGH = 0.95  # a ratio that needs no cause
CHOSEN_WRONG = 1.02  # times what tuning finds


def measure(problem: Problem) -> dict[str, Any]:
    """One row: seconds of both, measured in turn. D of ours is checked first."""
    choice = chosen(problem)
    peer_us, us = microseconds(problem, choice.operands, [choice.tactic])
    return {
        **{"m": problem.m, "n": problem.n, "k": problem.k, "layout": problem.layout},
        **{"batch": problem.batch, "tactic": str(choice.tactic)},
        **{"source": choice.source, "us": us, "peer_us": peer_us, "ratio": round(peer_us / us, 4)},
        **{"error": choice.error},
    }


def cause(problem: Problem, row: dict[str, Any]) -> dict[str, Any]:
    """The best tactic that tuning finds for a row's problem, measured in turn with both sides."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    result = search(FAMILY, current.registry, problem, device, make_clock=on_gpu(FAMILY.name, device))
    assert result.tactic is not None, result.reason
    operands = make_operands(measuring, problem, device)
    peer_us, us, best_us = microseconds(problem, operands, [Tactic.parse(row["tactic"]), result.tactic])
    why = "choice" if best_us * CHOSEN_WRONG < us else "kernels"
    return {"best_tactic": str(result.tactic), "best_ratio": round(peer_us / best_us, 4), "cause": why}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = sorted(row["ratio"] for row in rows)
    return {
        "shapes": len(ratios),
        "geomean": round(statistics.geometric_mean(ratios), 4),
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
    columns = ("m", "n", "k", "layout", "batch", "us", "peer us", "ratio", "tactic", "cause", "best ratio")
    lines += ["", "".join(f"| {name} " for name in (*columns, "best tactic")) + "|"]
    lines += ["|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {row['m']} | {row['n']} | {row['k']} | {row['layout']} | {row['batch']} | {row['us']:.2f} "
        f"| {row['peer_us']:.2f} | {row['ratio']:.3f} | `{row['tactic']}` | {row.get('cause', '')} "
        f"| {row.get('best_ratio', '')} | {row.get('best_tactic', '')} |"
        for row in sorted(rows, key=lambda row: row["ratio"])
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16", help="types of the operands")
    add_kinds(parser)
    parser.add_argument("--seed", type=int, default=20271, help="of the random problems")
    parser.add_argument("--count", type=int, default=200, help="number of random problems")
    parser.add_argument("--skip", type=int, default=0, help="number of the seed's shapes to leave out first")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no shape, and look for no cause, after"
    )
    parser.add_argument("--no-causes", action="store_true", help="search for nothing better")
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    machine.require_gpu()
    rows, problems, before, until = [], [], "", time.monotonic() + arguments.seconds
    for problem in itertools.islice(
        drawn_as(arguments, arguments.dtype, arguments.seed), arguments.skip, arguments.skip + arguments.count
    ):
        if rows and time.monotonic() > until:
            break
        problems.append(problem)
        rows.append(measure(problem))
        print(json.dumps(rows[-1]), flush=True)
        before = before or machine.clocks()  # after the first, so that they are warm
        torch.cuda.empty_cache()
    peer, run = measuring.peer(problem), head(before)
    for asked, row in sorted(zip(problems, rows, strict=True), key=lambda pair: pair[1]["ratio"]):
        if row["ratio"] >= ENOUGH or arguments.no_causes or time.monotonic() > until:
            break
        row |= cause(asked, row)  # noqa: PLW2901 (the row of `rows`)
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    header = {
        **{"measure": "warm", "dtype": arguments.dtype, "layouts": ", ".join(arguments.layout)},
        **{"batches": ", ".join(map(str, arguments.batch)), "seed": arguments.seed},
        **{"peer": peer[0] if peer else "nothing"},
        **run,
        **summary(rows),
    }
    print(json.dumps(summary(rows)))
    if arguments.output:
        machine.write_page(arguments.output, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
