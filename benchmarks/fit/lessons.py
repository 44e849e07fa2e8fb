"""What trees learn from: a problem's tactics with features, estimates and measured times (boosting.py).

Trees learn the logarithm of a tactic's time over its estimate. The nearer a tactic is to its problem's
fastest, the more it counts; an error that all tactics of a problem share does not count. Problems are dealt
into folds by their extents: those of one shape never teach each other. Needs numpy.
"""

from __future__ import annotations

import argparse
import bz2
import json
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.fit import boosting

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.libraries.registry import Registry
from tilewright.selection import corrections
from tilewright.selection.corrections import Corrections
from tilewright.selection.weighing import MOST_REFINED

FAR = 2.0  # times the fastest: tactics that teach nothing
NEAR = 0.15  # behind the fastest, at which what a tactic counts has fallen to 1 / e
FOLDS = 4
BANDS = ((1, 16), (17, 63), (64, 127), (128, 511), (512, 2047), (2048, 8192))  # of m, in reports


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
    count: int = 1  # how often it teaches


Report = Callable[[str, Sequence[Lesson], Sequence[float]], None]
"""Prints, after a name, how well is chosen for lessons, whose losses are as `regrets` gives them."""


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of times in JSON lines, compressed or not."""
    content = path.read_bytes()
    text = bz2.decompress(content) if path.suffix == ".bz2" else content
    yield from map(json.loads, text.decode().splitlines())


def columns(
    seconds: Mapping[Tactic, float],
    kernels: Mapping[str, Any],
    features: Callable[[Any, Any], Mapping[str, float]],
) -> tuple[tuple[str, ...], boosting.Numbers, boosting.Numbers, boosting.Numbers]:
    """The names, features, estimates and times of a lesson, from tactics' times and their kernels in a cost
    model."""
    rows, estimates, times = [], [], []
    for tactic, measured in seconds.items():
        kernel = kernels[tactic.kernel]
        terms = kernel.terms(tactic)
        rows.append(features(kernel, terms))
        estimates.append(math.log(kernel.estimate(terms).seconds))
        times.append(math.log(measured))
    numbers = np.array([[*row.values()] for row in rows], float)
    return tuple(rows[0]), numbers, np.array(estimates), np.array(times)


def lesson_of(
    problem: Any,
    kind: str,
    seconds: Mapping[Tactic, float],
    kernel_of: Callable[[str], Any],
    features: Callable[[Any, Any], Mapping[str, float]],
) -> Lesson | None:
    """The lesson of a problem that was timed without a peer; None if none of its tactics counts.

    `kernel_of` gives the kernel of a name in the cost model."""
    if not seconds:
        return None
    kernels = {name: kernel_of(name) for name in {tactic.kernel for tactic in seconds}}
    learnable = columns(seconds, kernels, features)
    shape = (problem.m, problem.n, problem.k)
    return Lesson(shape, kind, *learnable, math.log(min(seconds.values())), math.nan)


def write_times(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes what `read` reads, compressed."""
    with bz2.open(path, "wt", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def learn(lessons: Sequence[Lesson], size: boosting.Size = boosting.LARGE) -> list[boosting.Tree]:
    lessons = [lesson for lesson in lessons for _ in range(lesson.count)]
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
    return boosting.learn(examples, size)


def regrets(lessons: Sequence[Lesson], trees: Sequence[boosting.Tree]) -> list[float]:
    """The time of the first, over that of the fastest."""
    features = np.concatenate([lesson.features for lesson in lessons])
    more: boosting.Numbers = sum(
        (boosting.answers(tree, features) for tree in trees), np.zeros(len(features))
    )
    most = corrections.MOST
    by_lesson = np.split(more.clip(-most, most), np.cumsum([len(lesson.times) for lesson in lessons])[:-1])
    return list(map(_regret, lessons, by_lesson))


def _regret(lesson: Lesson, more: boosting.Numbers) -> float:
    estimates = lesson.estimates + more
    estimates[lesson.estimates.argsort()[MOST_REFINED:]] = np.inf
    return math.exp(lesson.times[estimates.argmin()] - lesson.fastest)


def dealt(lessons: Iterable[Lesson]) -> list[int]:
    """The fold of each lesson; of one shape the same."""
    draw, folds = random.Random(0), dict[tuple[int, int, int], int]()
    return [folds.setdefault(lesson.shape, draw.randrange(FOLDS)) for lesson in lessons]


def held_out(
    lessons: Sequence[Lesson], size: boosting.Size = boosting.LARGE
) -> tuple[list[Lesson], list[float]]:
    """All lessons, and the regrets of trees that learnt from the other folds."""
    pairs = list(zip(lessons, dealt(lessons), strict=True))
    tested: list[Lesson] = []
    losses: list[float] = []
    for fold in range(FOLDS):
        mine = [lesson for lesson, its in pairs if its == fold]
        if not mine:
            continue
        trees = learn([lesson for lesson, its in pairs if its != fold], size)
        tested += mine
        losses += regrets(mine, trees)
    return tested, losses


def write(learnt: Corrections, trees: Iterable[boosting.Tree], names: Iterable[str]) -> None:
    """Writes trees for the runtime, after the names of the features that they ask about."""
    lines = [corrections.head(names), *(boosting.text(tree, corrections.UNIT) for tree in trees)]
    learnt.weights.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def teach(
    learnt: Corrections,
    lessons: Sequence[Lesson],
    report: Report,
    size: boosting.Size = boosting.LARGE,
    *,
    store: bool,
) -> None:
    """Reports how well estimates choose without trees; then with trees for problems that they have not seen.
    `store`: learns from all lessons instead, and writes the trees for the runtime."""
    report("the mechanisms", lessons, regrets(lessons, ()))
    if not store:
        report("learnt from other problems", *held_out(lessons, size))
        return
    trees = learn(lessons, size)
    write(learnt, trees, lessons[0].names)
    report("learnt from all", lessons, regrets(lessons, trees))


def run(
    doc: str | None,
    family: str,
    data: Path,
    *,
    lesson: Callable[[dict[str, Any], Mapping[str, KernelRecord]], Lesson | None],
    thin: Callable[[Iterable[dict[str, Any]]], None],
    taught: Callable[..., None],
) -> None:
    """The command line of a program that teaches a family's trees. `data`: the committed times, which `thin`
    writes from raw ones; `lesson`: a row's lesson, or None where no kernel of it is left; `taught`: `teach`
    with the family's trees, report and size."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--times", type=Path, nargs="+", default=[data], help="files of times; default: the committed one"
    )
    parser.add_argument("--write", action="store_true", help="learn from all, write the runtime's trees")
    parser.add_argument("--thin", type=Path, nargs="+", metavar="RAW", help=f"write {data.name} of these")
    options = parser.parse_args()
    if options.thin:
        thin(row for path in options.thin for row in read(path))
        return
    records = {record.name: record for record in Registry().kernels(family)}
    lessons = [lesson(row, records) for path in options.times for row in read(path)]
    taught([each for each in lessons if each is not None], store=options.write)


def report_choice(
    name: str,
    lessons: Sequence[Lesson],
    losses: Sequence[float],
    *,
    bands: Iterable[tuple[int, int]] = BANDS,
    banded: str | None = None,
) -> None:
    """Prints how well is chosen for all problems, for each kind, and by rows: those of the kind `banded`, if
    it is given."""
    pairs = list(zip(lessons, losses, strict=True))
    print(f"{name}:")
    _line("all", losses)
    for kind in sorted({lesson.kind for lesson in lessons}):
        _line(kind, [loss for lesson, loss in pairs if lesson.kind == kind])
    for least, most in bands:
        of_band = [
            loss
            for lesson, loss in pairs
            if banded in (None, lesson.kind) and least <= lesson.shape[0] <= most
        ]
        if of_band:
            _line(f"{f'{banded}, ' if banded else ''}m {least} to {most}", of_band)


def _line(name: str, losses: Sequence[float]) -> None:
    behind = math.exp(statistics.fmean(map(math.log, losses)))
    print(
        f"  {name:<26} {len(losses):>4} problems: first over fastest {behind:.4f} in geomean, "
        f"{statistics.fmean(loss > 1.1 for loss in losses):.1%} beyond 1.1, {max(losses):.2f} at most"
    )
