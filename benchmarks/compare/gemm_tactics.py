"""Named `gemm` kernels beside cuBLAS (`torch.mm`), whatever the runtime would choose.

    python -m benchmarks.compare.gemm_tactics 'gemm_sm90_bf16_*_tn_*_mma_*' --output results/gemm_mma

KERNELS is a glob of names. Each built kernel that computes a plain BF16 product multiplies each size with the
tactic of its name alone; D is checked against float64 first. All take turns with cuBLAS
(gemm_beside_cublas.py). A ratio is cuBLAS's time over ours. Writes OUTPUT.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine
from benchmarks.lib.gemm_beside_cublas import head, microseconds

from tilewright import context
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.tools.measuring import checked, make_operands

SIZES = ("4096x4096x4096", "1000x6144x4096", "128x4096x4096", "16x4096x4096", "500x4096x14336")
COLUMNS = ("m", "n", "k", "us", "TFLOP/s", "peer us", "ratio", "kernel")


def tactics(pattern: str, problem: Problem) -> list[Tactic]:
    """The tactics of built kernels that compute the problem."""
    registry = context.current().registry
    return [
        Tactic(record.name)
        for record in registry.kernels("gemm")
        if fnmatch.fnmatchcase(record.name, pattern)
        and registry.is_built(record)
        and FAMILY.misfit(record, problem) is None
    ]


def measure(pattern: str, problem: Problem) -> Iterator[dict[str, Any]]:
    """A row for each kernel, with the same times of cuBLAS."""
    chosen = tactics(pattern, problem)
    operands = make_operands(measuring, problem, context.current().device(torch.cuda.current_device()))
    for tactic in chosen:
        checked(operands[0], tactic)
    peer_us, *times = microseconds(problem, operands, chosen)
    flop = 2 * problem.m * problem.n * problem.k
    for tactic, us in zip(chosen, times, strict=True):
        yield {
            **{"m": problem.m, "n": problem.n, "k": problem.k, "us": us},
            **{"TFLOP/s": round(flop / us / 1e6, 1), "peer us": peer_us, "ratio": round(peer_us / us, 3)},
            "kernel": f"`{tactic}`",
        }


def page(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = ["# gemm kernels beside torch.mm", "", *(f"- {key}: {value}" for key, value in header.items())]
    lines += ["", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(str(row[name]) for name in COLUMNS)} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", help="a glob of names")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="MxNxK", help="problems")
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    machine.require_gpu()
    rows: list[dict[str, Any]] = []
    before = ""
    for size in arguments.sizes:
        for row in measure(arguments.kernels, Problem(*map(int, size.split("x")))):
            rows.append(row)
            print(row, flush=True)
        before = before or machine.clocks()  # after the first, so that they are warm
        torch.cuda.empty_cache()
    if arguments.output:
        machine.write_page(arguments.output, page(head(before), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
