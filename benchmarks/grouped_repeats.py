"""Scaled and grouped products, again and again on the same operands: every result has the first one's bits.

    python benchmarks/grouped_repeats.py [--runs 10000]
    compute-sanitizer --tool racecheck python benchmarks/grouped_repeats.py --runs 2 --small

Of each grouping, what is selected for it: one group, 512 groups, groups without rows. Results are compared on
the GPU. Ends with 1 where one differs. `--small`: extents and groups as a sanitizer wants them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import torch

from tilewright.ops.grouped_gemm import measuring
from tilewright.ops.grouped_gemm.problem import Problem

BF16: dict[str, Any] = {"a": "bf16", "b": "bf16", "scales": "none"}
PROBLEMS = [
    Problem(m=520, n=1024, k=2048),
    Problem(m=16, n=1024, k=4096),
    Problem(m=1100, n=1024, k=1024, groups=5, grouping="row_index", row_alignment=32),
    Problem(m=1100, n=1024, k=1024, groups=5, grouping="ends", row_alignment=32),
    Problem(m=512, n=1024, k=1024, groups=8, grouping="rows_valid", expected_m=100),
    Problem(m=512, n=1024, k=1024, groups=8, grouping="rows_valid", **BF16),
    Problem(m=1100, n=1024, k=1024, groups=5, grouping="ends", row_alignment=8, **BF16),
    Problem(m=700, n=512, k=512, groups=1, grouping="row_index"),
    Problem(m=64, n=256, k=512, groups=512, grouping="rows_valid", expected_m=12),
    Problem(m=4096, n=256, k=512, groups=512, grouping="ends", row_alignment=4),
    Problem(m=512, n=512, k=2048, groups=4, grouping="k_sizes", scales="1x128", d="f32"),
    Problem(m=256, n=256, k=8192, groups=40, grouping="k_sizes", scales="1x128", d="f32", c=True),
    Problem(m=512, n=512, k=2048, groups=4, grouping="k_sizes", d="f32", layout="nt", **BF16),
    Problem(m=512, n=1024, k=1024, groups=8, grouping="rows_valid", layout="tt", zero_padding=True, **BF16),
]


def small(problem: Problem) -> Problem:
    """The same kind, of a few tiles and at most 40 groups: beyond a warp's 32."""
    groups, m = min(problem.groups, 40), min(problem.m, 328)
    k = 128 * groups if problem.grouping == "k_sizes" else min(problem.k, 512)
    return replace(problem, m=m, n=min(problem.n, 264), k=k, groups=groups)


def differing(problem: Problem, runs: int) -> int:
    """How many of so many results differ from the first."""
    operands = measuring.make(problem, torch.Generator("cuda").manual_seed(0))
    if problem.grouping == "rows_valid":
        operands.rows_valid[::3] = 0
    elif problem.grouping == "k_sizes":
        sizes = operands.group_k
        sizes[-1] += sizes[0]
        sizes[0] = 0
    operands.out.zero_()
    operands.call()
    operands.check()
    first = operands.out.clone()
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(runs):
        operands.out.zero_()  # what is left as it is, and what is written
        operands.call()
        count += (operands.out != first).any()
    return int(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--small", action="store_true", help="small problems, as a sanitizer wants them")
    given = parser.parse_args()
    runs, worst = given.runs, 0
    for problem in map(small, PROBLEMS) if given.small else PROBLEMS:
        found = differing(problem, runs)
        print(f"{problem}: {found} of {runs} differ", flush=True)
        worst = max(worst, found)
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
