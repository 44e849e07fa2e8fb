"""Files of measured times of tactics, which lean_times.py writes. They end in .csv.bz2. Needs no torch."""

from __future__ import annotations

import bz2
import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.lib.gemm_problems import described, dtype_of

from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem

# A problem's first row is cuBLAS's. In the others, the fields of the problem are empty.
OF_PROBLEM = ("dtype", "layout", "batch", "seed", "m", "n", "k")
FIELDS = (*OF_PROBLEM, "tactic", "us", "again")
PEER = "peer"  # in the place of a tactic: cuBLAS


@dataclass
class Measured:
    """One problem's times, in seconds of a call."""

    seed: int
    problem: Problem
    seconds: dict[Tactic, float] = field(default_factory=dict)
    again: set[Tactic] = field(default_factory=set)  # those that were taken by turns
    peer: float = float("nan")

    @property
    def best(self) -> float:
        return min(self.seconds.values())


def read(paths: Iterable[Path]) -> list[Measured]:
    """Problems in the order of files; of one that several files have, the last's times count."""
    problems: dict[tuple[str, ...], Measured] = {}
    for path in paths:
        with bz2.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                seconds = float(row["us"]) * 1e-6
                if row["tactic"] == PEER:
                    key = tuple(row[name] for name in OF_PROBLEM)
                    measured = problems.setdefault(key, Measured(int(row["seed"]), _problem(row)))
                    measured.peer = seconds
                    continue
                tactic = _parse(row["tactic"])
                measured.seconds[tactic] = seconds
                if row["again"] == "1":
                    measured.again.add(tactic)
    return list(problems.values())


def _problem(row: Mapping[str, str]) -> Problem:
    m, n, k, batch = (int(row[name]) for name in ("m", "n", "k", "batch"))
    return described(row["dtype"], m, n, k, layout=row["layout"], batch=batch)


def rows(
    seed: int, problem: Problem, peer: float, tactics: Mapping[str, tuple[float, bool]]
) -> Iterator[tuple[str | int, ...]]:
    """A problem's rows of a file, by `FIELDS`: seconds of a call, and whether it was taken by turns."""
    extents = (problem.m, problem.n, problem.k)
    yield (dtype_of(problem), problem.layout, problem.batch, seed, *extents, PEER, _microseconds(peer), 1)
    for tactic, (seconds, again) in tactics.items():
        yield (*[""] * len(OF_PROBLEM), tactic, _microseconds(seconds), int(again))


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.3f}".rstrip("0").rstrip(".")


_parse = cache(Tactic.parse)
