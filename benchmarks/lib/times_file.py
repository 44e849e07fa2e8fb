"""Files of measured times of tactics, as lean_times.py writes them. Needs no torch."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.lib.gemm_problems import described, dtype_of

from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem

# Files written before there were the last two have problems of layout tn and no batch.
FIELDS = ("dtype", "seed", "m", "n", "k", "tactic", "us", "again", "layout", "batch")
PEER = "peer"  # where a tactic stands: cuBLAS


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
    found: dict[tuple[str, ...], Measured] = {}
    for path in paths:
        with gzip.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                layout, batch = row.get("layout") or "tn", row.get("batch") or "1"
                key = (row["dtype"], row["seed"], row["m"], row["n"], row["k"], layout, batch)
                one = found.get(key)
                if one is None:
                    extents = (int(row[name]) for name in ("m", "n", "k"))
                    problem = described(row["dtype"], *extents, layout=layout, batch=int(batch))
                    one = found[key] = Measured(int(row["seed"]), problem)
                if row["tactic"] == PEER:
                    one.peer = float(row["us"]) * 1e-6
                    continue
                tactic = _parse(row["tactic"])
                one.seconds[tactic] = float(row["us"]) * 1e-6
                if row["again"] == "1":
                    one.again.add(tactic)
    return list(found.values())


def row(seed: int, problem: Problem, tactic: str, seconds: float, again: bool) -> tuple[str | int, ...]:
    """A row of a file, by `FIELDS`."""
    head = (dtype_of(problem), seed, problem.m, problem.n, problem.k)
    return (*head, tactic, f"{seconds * 1e6:.3f}", int(again), problem.layout, problem.batch)


_parse = cache(Tactic.parse)
