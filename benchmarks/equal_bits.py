"""Kernels of `gemm` with mainloops of ours, run again and again: every result equal to the first, to the bit.

    python benchmarks/equal_bits.py [--runs 10000] [--out FILE]
    compute-sanitizer --tool racecheck python benchmarks/equal_bits.py --runs 2 --small

Takes the built lean and stream kernels that differ in what decides how they work (types, layout, schedule,
swapped operands, the way to D), each with clusters and with k split where it can, on a problem of odd extents
and on an aligned one with C and a bias, where the kernel takes them. A tactic's runs lie in CUDA graphs,
which two streams replay at once, so that thread blocks of different launches meet on the SMs and programmatic
launches follow one another; each run writes memory of its own, poisoned before. The first result is checked
against float64. Ends with 1 where a bit differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import tilewright
from tilewright import context
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import measuring
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.mainloops import MOST_ROWS, mainloop_of
from tilewright.ops.gemm.problem import GIVEN, Problem
from tilewright.table import KernelRecord

SHAPE, SMALL = (333, 1001, 2056), (72, 137, 528)
CALLS = 50  # in a graph
STREAMS = 2
ROOM = 256  # bytes that results begin at multiples of
HOW = ("a", "b", "d", "layout", "mainloop", "schedule", "swap_ab", "fast_accum")  # decides how a kernel works


def kernels() -> Iterator[KernelRecord]:
    """One built kernel of each kind, the largest tile first."""
    now = context.current()
    seen = set()
    records = [
        one for one in now.registry.route("gemm", now.device(0)) if one.config.get("mainloop", "") != ""
    ]
    for record in sorted(records, key=lambda one: one.config["tile"], reverse=True):
        ours = mainloop_of(record) != "cutlass"
        kind = tuple(record.config[field] for field in HOW if field in record.config)
        if ours and kind not in seen and now.registry.is_built(record):
            seen.add(kind)
            yield record


def tactics(record: KernelRecord, problem: Problem) -> list[Tactic]:
    if mainloop_of(record) == "stream":
        return [Tactic(record.name, splits=parts) for parts in (1, 4)]
    stages = -(-problem.k // record.config["tile"][2])
    ways = (("2x2", 2), ("", 8), ("", 7), ("2x1", 3)) if record.facts["splits"] else ()
    cuts = [one for one in ways if one[1] <= stages]
    clustered = [
        Tactic(record.name, cluster=each, splits=parts) for each, parts in [("", 1), ("4x1", 1), *cuts]
    ]
    if not record.facts["splits"]:
        return clustered
    in_memory = [one for one in (("", 5), ("2x1", 2)) if one[1] <= stages]
    return clustered + [Tactic(record.name, each, decomposition="split_k", splits=n) for each, n in in_memory]


def problems_of(record: KernelRecord, shape: tuple[int, int, int]) -> list[Problem]:
    """Of odd extents, and of aligned ones with C and a bias, where the kernel takes them."""
    config = record.config
    m, n, k = shape
    if mainloop_of(record) == "stream":
        m, k = min(m, MOST_ROWS), -(-k // 16) * 16
    plain = Problem(
        m, n, k, 1, config["a"], config["b"], config["d"], config["layout"],
        activation=config["activation"].replace(GIVEN, "gelu"), fast_accum=config["fast_accum"],
    )  # fmt: skip
    aligned = replace(plain, n=-(-n // 16) * 16)
    both = (plain, replace(aligned, c=True, bias=True), replace(aligned, bias=True))
    return [one for one in both if FAMILY.misfit(record, one) is None][:2]


def aligned(operands: measuring.Operands) -> None:
    """Puts operands into wider tensors, whose rows begin at multiples of 16 bytes."""
    a, b = operands.problem.layout
    for name, by_rows in (("a", a == "t"), ("b", b == "t")):
        matrix = getattr(operands, name)
        rows = matrix if by_rows else matrix.mT
        width = -(-rows.shape[1] // 16) * 16
        wide = torch.zeros(rows.shape[0], width, device="cuda").to(rows.dtype)[:, : rows.shape[1]]
        wide.copy_(rows)
        setattr(operands, name, wide if by_rows else wide.mT)


def differing(tactic: Tactic, problem: Problem, runs: int) -> tuple[int, float]:
    """Runs whose bits differ from the first one's, and that one's error norm."""
    operands = measuring.make(problem, torch.Generator("cuda").manual_seed(0))
    aligned(operands)
    operands.poison()
    operands.call(tactic)
    error = operands.check()
    wanted = operands.out.clone().view(torch.uint8).flatten()
    calls = min(CALLS, runs)
    found = torch.zeros((), dtype=torch.int64, device="cuda")
    graphs = []
    for _ in range(STREAMS):
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        rooms = torch.empty(calls, -(-len(wanted) // ROOM) * ROOM, dtype=torch.uint8, device="cuda")
        results = rooms[:, : len(wanted)]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.cuda.graph(graph, stream=side):
            for result in results:
                operands.out = result.view(operands.out.dtype).view(operands.out.shape)
                operands.call(tactic)
        graphs.append((side, graph, results))
    done = 0
    while done < runs:
        for _, _, results in graphs:
            results.fill_(0xFF)
        torch.cuda.synchronize()
        for side, graph, _ in graphs:
            with torch.cuda.stream(side):
                graph.replay()
        torch.cuda.synchronize()
        for _, _, results in graphs:
            found += (results != wanted).any(dim=1).sum()
        done += calls * STREAMS
    return int(found), error


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--small", action="store_true", help="one small problem, as a sanitizer wants it")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="of the kinds of kernels: every N-th")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON there")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this program needs a GPU", file=sys.stderr)
        return 2
    os.environ["TILEWRIGHT_JIT"] = "0"
    rows: list[dict[str, Any]] = []
    share, shares = map(int, arguments.share.split("/"))
    for record in itertools.islice(kernels(), share, None, shares):
        for problem in problems_of(record, SMALL if arguments.small else SHAPE):
            for tactic in tactics(record, problem):
                differ, error = differing(tactic, problem, arguments.runs)
                rows.append(
                    {"tactic": str(tactic), "problem": str(problem), "differ": differ, "error": error}
                )
                print(
                    f"{differ} of {arguments.runs} differ, error norm {error:.1e}: {tactic}, {problem}",
                    flush=True,
                )
    answer = {
        "command": " ".join(["python", "benchmarks/equal_bits.py", *sys.argv[1:]]),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "tilewright": tilewright.__version__,
        "runs": arguments.runs,
        "tactics": len(rows),
        "differ": sum(row["differ"] for row in rows),
        "rows": rows,
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} tactics, {arguments.runs} runs of each: {answer['differ']} differ")
    return 1 if answer["differ"] or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
