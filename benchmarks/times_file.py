"""Files of measured times of tactics, as lean_times.py writes them, read without torch."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gemm_problems import described

from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.problem import Problem

FIELDS = ("dtype", "seed", "m", "n", "k", "tactic", "us", "again")
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
                key = (row["dtype"], row["seed"], row["m"], row["n"], row["k"])
                one = found.get(key)
                if one is None:
                    problem = described(row["dtype"], int(row["m"]), int(row["n"]), int(row["k"]))
                    one = found[key] = Measured(int(row["seed"]), problem)
                if row["tactic"] == PEER:
                    one.peer = float(row["us"]) * 1e-6
                    continue
                tactic = _parse(row["tactic"])
                one.seconds[tactic] = float(row["us"]) * 1e-6
                if row["again"] == "1":
                    one.again.add(tactic)
    return list(found.values())


_parse = cache(Tactic.parse)
