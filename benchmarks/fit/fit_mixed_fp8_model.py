"""Fits the cost models of `mixed_fp8_gemm` and `mixed_fp8_grouped_gemm` to times of mixed_fp8_times.py, and
says how well they choose.

    python -m benchmarks.fit.fit_mixed_fp8_model fp8_times.jsonl                  # with today's numbers
    python -m benchmarks.fit.fit_mixed_fp8_model fp8_times.jsonl --fit NAME NAME  # better ones, to be written

NAME is a number of a model's module, or a table of numbers: dense.NAME or experts.NAME. Two things are made
small: how far estimates of tactics within 1.3 of a problem's fastest are off, and how far the model's first
is behind the fastest. One number at a time goes up and down by ever smaller steps.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm import cost as dense_cost
from tilewright.families.mixed_fp8_gemm.problem import Problem as Dense
from tilewright.families.mixed_fp8_grouped_gemm import cost as experts_cost
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Experts
from tilewright.libraries.registry import Registry

MODULES: dict[str, ModuleType] = {"dense": dense_cost, "experts": experts_cost}
FAMILIES = {"mixed_fp8_gemm": "dense", "mixed_fp8_grouped_gemm": "experts"}
PROBLEMS: dict[str, Any] = {"mixed_fp8_gemm": Dense, "mixed_fp8_grouped_gemm": Experts}
NEAR = math.log(1.3)  # behind the fastest: tactics whose estimates should be right
UNSURE = 0.03  # behind the model's first, at which the chance that a tactic is taken has fallen to 1 / e
MOST_REGRET = math.log(1.4)  # of a tactic
ERROR_SHARE = 2.0  # of the squared errors beside the regret
STEPS = (0.2, 0.08, 0.03)


class Case:
    """A problem's times."""

    def __init__(self, row: dict[str, Any], registry: Registry) -> None:
        self.cost = MODULES[FAMILIES[row["family"]]]
        self.problem = PROBLEMS[row["family"]](**row["problem"])
        parsed = [(Tactic.parse(text), math.log(us[0] * 1e-6)) for text, us in row["us"].items()]
        names = {record.name for record in registry.kernels(row["family"])}
        self.times = [(tactic, seconds) for tactic, seconds in parsed if tactic.kernel in names]
        self.records = {tactic.kernel: registry.record(tactic.kernel) for tactic, _ in self.times}
        self.best = min(seconds for _, seconds in self.times)

    def estimates(self) -> list[tuple[float, float, Tactic]]:
        """Logarithms of each tactic's estimate and time."""
        weigh = {
            name: self.cost.estimator(record, self.problem, H200) for name, record in self.records.items()
        }
        return [(math.log(weigh[tactic.kernel](tactic).seconds), time, tactic) for tactic, time in self.times]

    def loss(self) -> float:
        rows = self.estimates()
        errors = [estimate - time for estimate, time, _ in rows if time < self.best + NEAR]
        first = min(estimate for estimate, *_ in rows)
        chances = [math.exp((first - estimate) / UNSURE) for estimate, *_ in rows]
        regrets = [min(time - self.best, MOST_REGRET) for _, time, _ in rows]
        regret = sum(chance * own for chance, own in zip(chances, regrets, strict=True)) / sum(chances)
        return ERROR_SHARE * statistics.fmean(error**2 for error in errors) + regret

    @property
    def kind(self) -> str:
        fast = " fast_accum" if self.problem.fast_accum else ""
        family = "experts" if isinstance(self.problem, Experts) else "dense"
        return f"{family} {self.problem.weight_format}{fast}"


def numbers(names: Sequence[str]) -> Iterator[tuple[ModuleType, str, str | None]]:
    """The numbers to fit: a module, a name, and a key where it is a table."""
    for text in names:
        side, _, name = text.partition(".")
        module = MODULES[side]
        value = getattr(module, name)
        for key in value if isinstance(value, dict) else (None,):
            yield module, name, key


def read_number(module: ModuleType, name: str, key: str | None) -> float:
    value = getattr(module, name)
    return float(value if key is None else value[key])


def put(module: ModuleType, name: str, key: str | None, value: float) -> None:
    if key is None:
        setattr(module, name, value)
    else:
        getattr(module, name)[key] = value


def fit(cases: Sequence[Case], names: Sequence[str]) -> None:
    """Changes the models' numbers, and prints them."""
    places = list(numbers(names))
    best = statistics.fmean(case.loss() for case in cases)
    print(f"loss {best:.5f}", flush=True)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for place in places:
                value = read_number(*place)
                for tried in (value * (1 + step), value / (1 + step)):
                    put(*place, tried)
                    if (loss := statistics.fmean(case.loss() for case in cases)) < best - 1e-6:
                        best, improved = loss, True
                        break
                    put(*place, value)
        print(f"loss {best:.5f} after steps of {step}", flush=True)
    for place in places:
        put(*place, float(f"{read_number(*place):.4g}"))
        print(f"{place[1]}{f'[{place[2]!r}]' if place[2] else ''} = {read_number(*place):.4g}")


def report(cases: Sequence[Case], worst: int) -> None:
    groups: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for case in cases:
        estimate, time, tactic = min(case.estimates(), key=lambda row: row[0])
        fastest = min(case.times, key=lambda row: row[1])[0]
        text = f"{case.problem}: {tactic}, fastest {fastest}"
        groups[case.kind].append((math.exp(time - case.best), math.exp(estimate - time), text))
    for kind, rows in sorted(groups.items()):
        regrets = [row[0] for row in rows]
        print(
            f"{kind:<32} {len(rows):>4} problems: chosen over fastest "
            f"{statistics.geometric_mean(regrets):.4f} in geomean, {max(regrets):.3f} at worst; estimate "
            f"over time {statistics.geometric_mean(row[1] for row in rows):.3f}"
        )
    for regret, error, text in sorted((row for rows in groups.values() for row in rows), reverse=True)[
        :worst
    ]:
        print(f"{regret:.3f}, estimate {error:.3f}, {text}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("times", nargs="+", type=Path, help="files of mixed_fp8_times.py")
    parser.add_argument("--fit", nargs="+", default=[], metavar="NAME", help="numbers of the models")
    parser.add_argument(
        "--worst", type=int, default=8, help="number of problems to list that are chosen worst"
    )
    options = parser.parse_args()
    registry = Registry()
    lines = [line for path in options.times for line in path.read_text(encoding="utf-8").splitlines()]
    cases = [Case(json.loads(line), registry) for line in lines]
    report(cases, 0)
    if options.fit:
        fit(cases, options.fit)
    report(cases, options.worst)


if __name__ == "__main__":
    main()
