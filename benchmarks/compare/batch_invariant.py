"""Dense products in batch-invariant mode, beside cuBLAS and beside the free choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.batch_invariant --dtype bf16 fp8
        --output benchmarks/results/batch_invariant

The problems are the layers of shapes/gemm.yaml (`layers`) and random ones (`random`, as gemm_untuned.py draws
them), in random order. In batch-invariant mode a row has the same bits whatever other rows are computed with
it: every m has the same k ranges (families/gemm/fixed_splits.py). cuBLAS, the mode's choice, the free choice
and the first tactic that does not split k run in turn, replay by replay: CUDA graphs of calls on operands
that L2 does not hold, random data, medians. `ratio` is cuBLAS's time over the mode's, `share` the free
choice's time over the mode's, `gain` the time without a split over the mode's. Writes OUTPUT.md.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.compare import gemm_vs_cublas
from benchmarks.lib import machine, ratios
from benchmarks.lib.gemm_beside_cublas import REPLAYS, microseconds
from benchmarks.lib.gemm_problems import drawn

from tilewright import context
from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.builds import jit_allowed
from tilewright.tools.measuring import make_operands

DTYPES, KINDS = ("bf16", "fp8"), ("layers", "random")


class Tactics(NamedTuple):
    """The choice of batch-invariant mode, the free choice, and the first tactic that does not split k."""

    mode: Tactic
    free: Tactic
    whole: Tactic


COLUMNS = (
    *("dtype", "kind", "m", "n", "k", "splits", "us", "peer_us", "free_us", "whole_us"),
    *("ratio", "share", "gain", "tactic", "free"),
)


def problems(
    dtypes: list[str], count: int, seed: int, kinds: Sequence[str] = KINDS
) -> list[tuple[str, str, Problem]]:
    """(dtype, kind, problem) in random order: all layers, and `count` random problems of each type."""

    def listed() -> Iterator[tuple[str, str, Problem]]:
        for dtype in dtypes:
            for _, problem in gemm_vs_cublas.problems(dtype, "all") if "layers" in kinds else ():
                yield dtype, "layers", problem
            for problem in itertools.islice(drawn(dtype, seed), count) if "random" in kinds else ():
                yield dtype, "random", problem

    shuffled = list(listed())
    random.Random(seed).shuffle(shuffled)
    return shuffled


def measure(dtype: str, kind: str, problem: Problem) -> dict[str, Any]:
    """One row: microseconds of a call, and what the mode chose."""
    current = context.current()
    free = current if not current.batch_invariant else current.sibling()
    device = current.device(torch.cuda.current_device())
    choices = [each.select(FAMILY, problem, device).tactic for each in (free.sibling(), free)]
    tactics = Tactics(*choices, unsplit(free, problem, device))
    different = list(dict.fromkeys(tactics))
    operands = make_operands(measuring, problem, device)
    peer_us, *times = microseconds(problem, operands, different)
    times_of = dict(zip(different, times, strict=True))
    return row_of(dtype, kind, problem, tactics, times_of, peer_us=peer_us)


def unsplit(current: context.Context, problem: Problem, device: DeviceProperties) -> Tactic:
    """The first tactic of a lean kernel, in the model's order, that does not split k."""
    records = current.registry.route("gemm", device)
    return next(
        tactic
        for tactic, record, _ in FAMILY.rank(records, problem, device)
        if tactic.splits == 1
        and record.config["mainloop"] == "lean"
        and (jit_allowed() or current.registry.is_built(record))
    )


def row_of(
    dtype: str, kind: str, problem: Problem, tactics: Tactics, times: dict[Tactic, float], *, peer_us: float
) -> dict[str, Any]:
    """`times`: microseconds of each tactic."""
    us, free_us, whole_us = (times[tactic] for tactic in tactics)
    return {
        **{"dtype": dtype, "kind": kind, "m": problem.m, "n": problem.n, "k": problem.k},
        **{"splits": tactics.mode.splits, "us": us, "peer_us": peer_us},
        **{"free_us": free_us, "whole_us": whole_us},
        **{"ratio": round(peer_us / us, 4), "share": round(free_us / us, 4), "gain": round(whole_us / us, 4)},
        "tactic": str(tactics.mode),
        "free": str(tactics.free) if tactics.free != tactics.mode else "the same",
    }


def page(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Summaries by type and kind, and all rows with the slowest first."""
    lines = [
        "# Batch-invariant mode beside cuBLAS and the free choice",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. Measure: warm "
        f"(CUDA graphs in turn, cold L2, medians of {REPLAYS} replays). `ratio` is cuBLAS's time over that "
        "of the mode's choice, `share` the free choice's time over it, `gain` the time of the first tactic "
        "without a split over it.",
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
                "k is split": sum(row["splits"] > 1 for row in of_kind),
                "gain": round(statistics.geometric_mean([row["gain"] for row in of_kind]), 4),
                "least gain": min(row["gain"] for row in of_kind),
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
    parser.add_argument(
        "--dtype", choices=DTYPES, nargs="+", default=list(DTYPES), help="types of the operands"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        nargs="+",
        default=list(KINDS),
        help="random problems, layers of shapes/gemm.yaml, or both",
    )
    parser.add_argument("--count", type=int, default=150, help="random problems of each type")
    parser.add_argument("--seed", type=int, default=20291, help="of the random problems")
    parser.add_argument(
        "--skip", type=int, default=0, help="problems, in that order: an earlier run had them"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def main() -> int:
    options = parsed()
    machine.require_gpu()
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + options.seconds
    asked = problems(options.dtype, options.count, options.seed, options.kind)
    for dtype, kind, problem in asked[options.skip :]:
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
