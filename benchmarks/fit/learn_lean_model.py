"""Learns what the cost model of lean `gemm` kernels leaves unexplained (families/gemm/learnt.py).

    python -m benchmarks.fit.learn_lean_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_lean_model --write    # learns from all problems, and writes the trees

Times are those of fit_lean_model.py, of other layouts, batches, exact FP8, and extents of multiples of 8; of
problems where splits of k compete (split_times.py); and of wide problems on cold code (cold_dense_times.py).
The last two teach several times each, and are reported as kinds of their own. From the others, splits by
kernels that have a split form are left out, because the form is shorter. lessons.py says how trees learn.
Needs numpy, and some minutes of a CPU.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.fit.fit_lean_model import COLD, DATA, OTHERS, SPLITS, WIDE, Case, without_earlier_splits
from benchmarks.fit.lessons import BANDS, Lesson, columns, teach
from benchmarks.lib.gemm_problems import dtype_of
from benchmarks.lib.times_file import read

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm import cost_lean, learnt
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

WHOLE = 64  # problems of other multiples are reported as wide


class Kind(NamedTuple):
    """Problems that are reported by themselves."""

    name: str
    count: int  # how often each teaches


KINDS = {SPLITS: Kind("splits", 2), COLD: Kind("cold code", 5)}


def lesson(case: Case, kind: Kind | None = None) -> Lesson:
    """The lesson of a problem. `kind`: None if its type and layout name it."""
    problem = case.measured.problem
    kernels = {name: cost_lean.Kernel(record, problem, H200) for name, record in case.records.items()}
    shape = (problem.m, problem.n, problem.k)
    learnable = columns(case.known, kernels, learnt.features)
    name, count = kind or Kind(kind_of(problem), 1)
    return Lesson(shape, name, *learnable, math.log(case.best), math.log(case.measured.peer), count)


def kind_of(problem: Problem) -> str:
    """For a report."""
    layout = "" if problem.layout == "tn" else f" {problem.layout}"
    wide = ", wide" if problem.n % WHOLE or problem.k % WHOLE else ""
    return f"{dtype_of(problem)}{layout}{wide}{', batches' if problem.batch > 1 else ''}"


def report(name: str, lessons: Sequence[Lesson], regrets: Sequence[float]) -> None:
    """Prints how well is chosen for all problems, and for the bands of m of each kind."""
    pairs = list(zip(lessons, regrets, strict=True))
    print(f"{name}:")
    _line("all", pairs)
    for kind in sorted({lesson.kind for lesson in lessons}):
        of_kind = [pair for pair in pairs if pair[0].kind == kind]
        _line(kind, of_kind)
        for least, most in BANDS:
            of_band = [pair for pair in of_kind if least <= pair[0].shape[0] <= most]
            if of_band:
                _line(f"{kind}, m {least} to {most}", of_band)


def _line(name: str, pairs: Sequence[tuple[Lesson, float]]) -> None:
    def share(limit: float, chosen: Iterable[float]) -> str:
        return f"{statistics.fmean(ratio >= limit for ratio in chosen):.1%}"

    possible = [math.exp(lesson.peer - lesson.fastest) for lesson, _ in pairs]
    ratios = [each / its for each, (_, its) in zip(possible, pairs, strict=True)]
    behind = math.exp(statistics.fmean(math.log(each) for _, each in pairs))
    print(
        f"  {name:<22} {len(pairs):>4} problems: first over fastest {behind:.4f} in geomean, "
        f"{statistics.fmean(each > 1.1 for _, each in pairs):.1%} beyond 1.1; of cuBLAS "
        f"{math.exp(statistics.fmean(map(math.log, ratios))):.3f} in geomean, {min(ratios):.2f} at least, "
        f"{share(0.95, ratios)} at 0.95 (the fastest: {share(0.95, possible)}), "
        f"{share(0.9, ratios)} at 0.90 ({share(0.9, possible)})"
    )


def taught(cases: Iterable[Case], kind: Kind | None = None) -> Iterator[Lesson]:
    """The lessons of those problems that the trees are asked about."""
    for case in cases:
        if case.by_kernel and learnt.is_learnt(case.measured.problem, H200):
            yield lesson(case, kind)


def lessons_of(paths: Sequence[Path], records: Mapping[str, KernelRecord]) -> Iterator[Lesson]:
    """The lessons of files."""
    usual = read(path for path in paths if path not in KINDS)
    kept = (measured for measured in usual if without_earlier_splits(measured, records).seconds)
    yield from taught(Case(measured, records) for measured in kept)
    for path in paths:
        if path in KINDS:
            yield from taught((Case(measured, records) for measured in read([path])), KINDS[path])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times",
        type=Path,
        nargs="+",
        default=[DATA, OTHERS, WIDE, SPLITS, COLD],
        help="files of lean_times.py; default: the committed ones",
    )
    parser.add_argument(
        "--write", action="store_true", help=f"learn from all, write {learnt.CORRECTIONS.weights.name}"
    )
    arguments = parser.parse_args()
    records = {record.name: record for record in Registry().kernels("gemm") if mainloop_of(record) == "lean"}
    teach(learnt.CORRECTIONS, [*lessons_of(arguments.times, records)], report, store=arguments.write)


if __name__ == "__main__":
    main()
