"""Times tactics of `gemm` on cold code, on wide problems drawn at random, which teach the choice.

    TILEWRIGHT_JIT=0 python -m benchmarks.fit.cold_dense_times --seed 921 --seconds 60 --output times.csv.bz2

Problems are those of `gemm_problems.wide`, in BF16 or FP16 (--dtype): n and k are multiples of 8 from 64, in
four layouts. With --shape, they are products of the given extents in layout tn. These tactics are timed: the
first of the ranking, two of each of its first kernels, and its very first kernels in other clusters. All are
timed in turn with cuBLAS, as `cold_launches.py` does: in CUDA graphs of launches with a softmax and a layer
norm over 16 MB each between them, whose own time is subtracted. The file is one of times_file.py; every
tactic was taken in turn.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import itertools
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import torch
from benchmarks.compare.cold_launches import call_of
from benchmarks.lib import machine
from benchmarks.lib.gemm_problems import wide
from benchmarks.lib.launch_cases import case_of
from benchmarks.lib.launch_graphs import Between, Graphs, free_memory
from benchmarks.lib.random_problems import listed
from benchmarks.lib.times_file import FIELDS, rows

from tilewright import context as contexts
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.families.gemm import learnt
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem

FIRST, KERNELS, OF_KERNEL = 14, 16, 2  # of the ranking: tactics, kernels, and tactics of each of these
IN_CLUSTERS, CLUSTERS = 3, 6  # kernels in other clusters, with and without splits, and how many of these
MOST = 34  # tactics of a problem
LONGEST_SECONDS = 4e-4  # of a problem, by `rough_seconds`


def chosen(order: Sequence[Tactic]) -> list[Tactic]:
    """The tactics to time of a ranking, its first one first."""
    kernels = list(dict.fromkeys(tactic.kernel for tactic in order))
    timed = [*order[:FIRST]]
    for kernel in kernels[:KERNELS]:
        timed += itertools.islice((tactic for tactic in order if tactic.kernel == kernel), OF_KERNEL)
    for kernel in list(dict.fromkeys(tactic.kernel for tactic in order[:FIRST]))[:IN_CLUSTERS]:
        of_cluster: dict[tuple[str, bool], Tactic] = {}
        for tactic in order:
            if tactic.kernel == kernel:
                of_cluster.setdefault((tactic.cluster, tactic.splits > 1), tactic)
        timed += itertools.islice(of_cluster.values(), CLUSTERS)
    return list(dict.fromkeys(timed))[:MOST]


def rough_seconds(problem: Problem) -> float:
    """About how long a problem takes on an H200."""
    return 2 * problem.m * problem.n * problem.k / 7e14 + problem.bytes / 4e12 + 2.3e-6


def problems(dtype: str, seed: int) -> Iterator[Problem]:
    """Problems of a seed that are short enough, and about which trees are asked."""
    for problem in wide(dtype, seed):
        if problem.n >= learnt.LEAST_N and rough_seconds(problem) < LONGEST_SECONDS:
            yield problem


@cache
def built() -> list[KernelRecord]:
    current = contexts.current()
    registry, device = current.registry, current.device(torch.cuda.current_device())
    return [record for record in registry.route(FAMILY.name, device) if registry.is_built(record)]


def microseconds(problem: Problem, between: Between) -> tuple[float, dict[str, float]]:
    """cuBLAS's time, and those of the tactics, the first of the ranking first."""
    device = contexts.current().device(torch.cuda.current_device())
    tactics = chosen([candidate.tactic for candidate in FAMILY.rank(built(), problem, device)])
    case = case_of(problem, None)
    case.ours = call_of(tactics[0])
    graphs = Graphs(case, between, ("cold",))
    graphs.add("cublas", case.peers["cublas"])
    for tactic in tactics:
        graphs.add(str(tactic), call_of(tactic))
    times = {str(side): statistics.median(us) for (_, side), us in graphs.microseconds().items()}
    return times.pop("cublas"), times


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16", help="of the operands")
    parser.add_argument("--seed", type=int, default=921, help="of the random problems")
    parser.add_argument("--shape", nargs="+", metavar="MxNxK", help="products to time, not random")
    parser.add_argument("--seconds", type=float, default=60, help="start no problem after")
    parser.add_argument("--output", type=Path, required=True, help="a .csv.bz2")
    arguments = parser.parse_args()
    machine.require_gpu()
    drawn = (
        cast("list[Problem]", listed(arguments.dtype, arguments.shape))
        if arguments.shape
        else problems(arguments.dtype, arguments.seed)
    )
    until, between, behind = time.monotonic() + arguments.seconds, Between(), list[float]()
    with bz2.open(arguments.output, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for problem in drawn:
            if time.monotonic() > until:
                break
            try:
                peer, times = microseconds(problem, between)
            except (TilewrightError, ValueError) as error:
                print(f"{problem}: {error}", file=sys.stderr)
                continue
            finally:
                free_memory()
            tactics = {tactic: (us * 1e-6, True) for tactic, us in times.items()}
            writer.writerows(rows(arguments.seed, problem, peer * 1e-6, tactics))
            first, fastest = next(iter(times.values())), min(times.values())
            behind.append(first / fastest)
            print(f"{problem}: {peer / first:.3f} of cuBLAS, {behind[-1]:.3f} behind the fastest", flush=True)
    if behind:
        print(f"{len(behind)} problems, {statistics.geometric_mean(behind):.4f} behind the fastest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
