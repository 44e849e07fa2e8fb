"""Scaled and grouped products, again and again on the same operands: every result has the first one's bits.

    python benchmarks/grouped_repeats.py [--runs 10000]

Of each grouping, what is selected for it. Results are compared on the GPU. Ends with 1 where one differs.
"""

from __future__ import annotations

import argparse
import sys

import torch

from tilewright.ops.grouped_gemm import measuring
from tilewright.ops.grouped_gemm.problem import Problem

PROBLEMS = [
    Problem(m=520, n=1024, k=2048),
    Problem(m=16, n=1024, k=4096),
    Problem(m=1100, n=1024, k=1024, groups=5, grouping="row_index", row_alignment=32),
    Problem(m=1100, n=1024, k=1024, groups=5, grouping="ends", row_alignment=32),
    Problem(m=512, n=1024, k=1024, groups=8, grouping="rows_valid", expected_m=100),
    Problem(m=512, n=1024, k=1024, groups=8, grouping="rows_valid", a="bf16", b="bf16", scales="none"),
    Problem(m=512, n=512, k=2048, groups=4, grouping="k_sizes", scales="1x128", d="f32"),
]


def differing(problem: Problem, runs: int) -> int:
    """How many of so many results differ from the first."""
    operands = measuring.make(problem, torch.Generator("cuda").manual_seed(0))
    operands.out.zero_()
    operands.call()
    operands.check()
    first = operands.out.clone()
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(runs):
        operands.call()
        count += (operands.out != first).any()
    return int(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    worst = 0
    for problem in PROBLEMS:
        found = differing(problem, runs)
        print(f"{problem}: {found} of {runs} differ", flush=True)
        worst = max(worst, found)
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
