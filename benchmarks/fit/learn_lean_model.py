"""Learns what the cost model of lean `gemm` kernels leaves unexplained (families/gemm/learnt.py).

    python -m benchmarks.fit.learn_lean_model            # how well it chooses for problems it has not seen
    python -m benchmarks.fit.learn_lean_model --write    # learns from all problems, and writes the trees

Times are those of fit_lean_model.py, and of other layouts, batches and exact FP8. Boosted trees (boosting.py)
learn the logarithm of a tactic's time over its estimate. Within a problem, the nearer a tactic is to the
fastest the more it counts; an error that all tactics of a problem share does not count. Problems are dealt
into folds by their extents: those of one shape in two types never teach each other. Needs numpy, and some
minutes of a CPU.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.fit import boosting
from benchmarks.fit.fit_lean_model import DATA, OTHERS, Case
from benchmarks.lib.gemm_problems import dtype_of
from benchmarks.lib.times_file import read

from tilewright.architectures.device import H200
from tilewright.families.gemm import cost_lean, learnt
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.weighing import MOST_REFINED

FAR = 2.0  # times the fastest: tactics that teach nothing
NEAR = 0.15  # behind the fastest, at which what a tactic counts has fallen to 1 / e
FOLDS = 4
BANDS = ((1, 16), (17, 63), (64, 127), (128, 511), (512, 2047), (2048, 8192))  # of m


class Lesson(NamedTuple):
    """A problem's tactics."""

    shape: tuple[int, int, int]
    kind: str
    names: tuple[str, ...]  # of the features
    features: boosting.Numbers  # [tactics, features]
    estimates: boosting.Numbers  # logarithms of seconds
    times: boosting.Numbers
    fastest: float
    peer: float


def lesson(case: Case) -> Lesson:
    problem = case.measured.problem
    features, estimates, times = [], [], []
    kernels = {name: cost_lean.Kernel(record, problem, H200) for name, record in case.records.items()}
    for tactic, seconds in case.known.items():
        kernel = kernels[tactic.kernel]
        terms = kernel.terms(tactic)
        row = learnt.features(kernel, terms)
        features.append([*row.values()])
        estimates.append(math.log(kernel.estimate(terms).seconds))
        times.append(math.log(seconds))
    columns = (np.array(features, float), np.array(estimates), np.array(times))
    shape = (problem.m, problem.n, problem.k)
    return Lesson(
        shape, kind_of(problem), tuple(row), *columns, math.log(case.best), math.log(case.measured.peer)
    )


def kind_of(problem: Problem) -> str:
    """For a report."""
    batch, plain = problem.batch > 1, problem.layout == "tn"
    return f"{dtype_of(problem)}{'' if plain else ' ' + problem.layout}{', batches' if batch else ''}"


def learn(lessons: Sequence[Lesson], seed: int = 0) -> list[boosting.Tree]:
    near = [lesson.times - lesson.fastest < math.log(FAR) for lesson in lessons]
    pairs = list(zip(lessons, near, strict=True))
    examples = boosting.Examples(
        np.concatenate([lesson.features[kept] for lesson, kept in pairs]),
        np.concatenate([(lesson.times - lesson.estimates)[kept] for lesson, kept in pairs]),
        np.concatenate(
            [np.exp(-np.maximum(lesson.times - lesson.fastest, 0)[kept] / NEAR) for lesson, kept in pairs]
        ),
        np.repeat(np.arange(len(pairs)), [int(kept.sum()) for kept in near]),
    )
    return boosting.learn(examples, seed)


def regrets(lessons: Sequence[Lesson], trees: Sequence[boosting.Tree]) -> list[float]:
    """The time of the first, over that of the fastest."""
    features = np.concatenate([lesson.features for lesson in lessons])
    more: boosting.Numbers = sum(
        (boosting.answers(tree, features) for tree in trees), np.zeros(len(features))
    )
    corrections = np.split(
        more.clip(-learnt.MOST, learnt.MOST), np.cumsum([len(lesson.times) for lesson in lessons])[:-1]
    )
    return list(map(_regret, lessons, corrections))


def _regret(one: Lesson, more: boosting.Numbers) -> float:
    estimates = one.estimates + more
    estimates[one.estimates.argsort()[MOST_REFINED:]] = np.inf
    return math.exp(one.times[estimates.argmin()] - one.fastest)


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


def dealt(lessons: Iterable[Lesson]) -> list[int]:
    """The fold of each; of one shape the same."""
    draw, folds = random.Random(0), {}
    return [folds.setdefault(lesson.shape, draw.randrange(FOLDS)) for lesson in lessons]


def write(trees: Iterable[boosting.Tree], names: Iterable[str]) -> None:
    """Writes the trees for `learnt`, after the names of the features that they ask about."""
    lines = [learnt.head(names), *(boosting.text(tree, learnt.UNIT) for tree in trees)]
    learnt.WEIGHTS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def taught(cases: Iterable[Case]) -> Iterator[Lesson]:
    """The lessons of those problems that the trees are asked about."""
    learnable = (case for case in cases if case.by_kernel and learnt.is_learnt(case.measured.problem, H200))
    return map(lesson, learnable)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=Path, nargs="+", default=[DATA, OTHERS])
    parser.add_argument("--write", action="store_true", help=f"learn from all, write {learnt.WEIGHTS.name}")
    arguments = parser.parse_args()
    records = {record.name: record for record in Registry().kernels("gemm") if mainloop_of(record) == "lean"}
    lessons = list(taught(Case(measured, records) for measured in read(arguments.times)))
    report("the mechanisms", lessons, regrets(lessons, ()))
    if arguments.write:
        trees = learn(lessons)
        write(trees, lessons[0].names)
        report("learnt from all", lessons, regrets(lessons, trees))
        return
    pairs = list(zip(lessons, dealt(lessons), strict=True))
    tested, losses = [], []
    for fold in range(FOLDS):
        held_out = [lesson for lesson, its in pairs if its == fold]
        trees = learn([lesson for lesson, its in pairs if its != fold])
        tested += held_out
        losses += regrets(held_out, trees)
    report("learnt from other problems", tested, losses)


if __name__ == "__main__":
    main()
