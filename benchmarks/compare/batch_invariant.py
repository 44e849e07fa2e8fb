"""Dense products in batch-invariant mode, beside cuBLAS and beside the free choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.batch_invariant --dtype bf16 fp8
        --output benchmarks/results/batch_invariant

The problems are the layers of shapes/gemm.yaml (`layers`) and random ones (`random`, as gemm_untuned.py draws
them), in random order. In batch-invariant mode a row has the same bits whatever other rows are computed with
it, which takes tactics that do not split k. cuBLAS, the free choice and the mode's choice run in turn, replay
by replay: CUDA graphs of calls on operands that L2 does not hold, random data, medians. `ratio` is cuBLAS's
time over the mode's, `share` the free choice's time over the mode's. Writes OUTPUT.md.

tests/gpu/test_batch_invariant_on_gpu.py compares the bits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import gemm_vs_cublas
from benchmarks.lib import machine, ratios
from benchmarks.lib.gemm_beside_cublas import REPLAYS, microseconds
from benchmarks.lib.gemm_problems import drawn

from tilewright import context
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.tools.measuring import make_operands

DTYPES = ("bf16", "fp8")
COLUMNS = ("dtype", "kind", "m", "n", "k", "us", "peer_us", "free_us", "ratio", "share", "tactic", "free")


def problems(dtypes: list[str], count: int, seed: int) -> list[tuple[str, str, Problem]]:
    """(dtype, kind, problem) in random order: all layers, and `count` random problems of each type."""

    def listed() -> Iterator[tuple[str, str, Problem]]:
        for dtype in dtypes:
            for _, problem in gemm_vs_cublas.problems(dtype, "all"):
                yield dtype, "layers", problem
            for problem in itertools.islice(drawn(dtype, seed), count):
                yield dtype, "random", problem

    shuffled = list(listed())
    random.Random(seed).shuffle(shuffled)
    return shuffled


def measure(dtype: str, kind: str, problem: Problem) -> dict[str, Any]:
    """One row: microseconds of a call, and what the mode chose."""
    current = context.current()
    free = current if not current.batch_invariant else current.sibling()
    device = current.device(torch.cuda.current_device())
    tactics = [
        each.select(FAMILY, problem, device).tactic for each in (free.sibling(), free)
    ]  # the mode's first
    operands = make_operands(measuring, problem, device)
    peer_us, us, *rest = microseconds(problem, operands, list(dict.fromkeys(tactics)))
    return row_of(dtype, kind, problem, [str(tactic) for tactic in tactics], (us, peer_us, *rest))


def row_of(
    dtype: str, kind: str, problem: Problem, tactics: list[str], times: tuple[float, ...]
) -> dict[str, Any]:
    """`tactics`: the mode's and the free one. `times`: the mode's, cuBLAS's, and the free one's if that is
    another tactic."""
    us, peer_us, *rest = times
    free_us = rest[0] if rest else us
    return {
        **{"dtype": dtype, "kind": kind, "m": problem.m, "n": problem.n, "k": problem.k},
        **{"us": us, "peer_us": peer_us, "free_us": free_us},
        **{"ratio": round(peer_us / us, 4), "share": round(free_us / us, 4)},
        **{"tactic": tactics[0], "free": tactics[1] if rest else "the same"},
    }


def page(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Summaries by type and kind, and all rows with the slowest first."""
    lines = [
        "# Batch-invariant mode beside cuBLAS and the free choice",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. Measure: warm "
        f"(CUDA graphs in turn, cold L2, medians of {REPLAYS} replays). `ratio` is cuBLAS's time over that "
        "of the mode's choice, `share` the free choice's time over it.",
        "",
    ]
    summaries = []
    for summary in ratios.summaries(rows, ("dtype", "kind")):
        of_kind = [row for row in rows if (row["dtype"], row["kind"]) == (summary["dtype"], summary["kind"])]
        shares = [row["share"] for row in of_kind]
        summaries.append(
            summary
            | {
                "share of the free choice": round(statistics.geometric_mean(shares), 4),
                "least share": min(shares),
                "other tactic": sum(row["free"] != "the same" for row in of_kind),
            }
        )
    lines += [*ratios.table(list(summaries[0]), [[*summary.values()] for summary in summaries]), ""]
    ordered = sorted(rows, key=lambda row: (row["dtype"], row["kind"], row["ratio"]))
    lines += ratios.table(COLUMNS, [[row[name] for name in COLUMNS] for row in ordered])
    return "\n".join(lines) + "\n"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=DTYPES, nargs="+", default=list(DTYPES))
    parser.add_argument("--count", type=int, default=150, help="random problems of each type")
    parser.add_argument("--seed", type=int, default=20291)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def main() -> int:
    options = parsed()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + options.seconds
    for dtype, kind, problem in problems(options.dtype, options.count, options.seed):
        if rows and time.monotonic() > until:
            break
        rows.append(measure(dtype, kind, problem))
        print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    print(json.dumps(ratios.summaries(rows, ("dtype", "kind")), indent=1))
    if options.output:
        head = machine.gpu_run("benchmarks.compare.batch_invariant")
        machine.write_page(options.output, page(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
