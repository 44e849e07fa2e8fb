"""Learns what the cost model of lean `gemm` kernels leaves unexplained (tilewright/ops/gemm/learnt.py).

    python benchmarks/learn_lean_model.py            # how well it chooses for problems that taught it nothing
    python benchmarks/learn_lean_model.py --write    # learns from all problems, and writes the weights

Times are those that fit the model (fit_lean_model.py). A network of one hidden layer learns the logarithm of
a tactic's time over its estimate. Within a problem, the nearer a tactic is to the fastest the more it
counts; an error that all tactics of a problem have in common counts a tenth. Weights decay, so that few
problems cannot pull them far. Problems are dealt into folds by their extents: those of one shape in two
types never teach each other. Needs torch, and some seconds of a CPU.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from fit_lean_model import DATA, Case
from times_file import read

from tilewright.device import H200
from tilewright.ops.gemm import cost_lean, learnt
from tilewright.ops.gemm.mainloops import mainloop_of
from tilewright.registry import Registry

WEIGHTS = Path(learnt.__file__).with_name("learnt_weights.py")
UNITS = 40
FAR = 1.5  # times the fastest: tactics that teach nothing
STEPS, RATE, DECAY = 600, 0.02, 0.3
NEAR = 0.15  # behind the fastest, at which what a tactic counts has fallen to 1 / e
COMMON_SHARE = 0.1
ERROR = 0.05  # beyond which an error counts by its size, not by its square
FOLDS = 4
Network = Callable[[torch.Tensor], torch.Tensor]


class Lesson(NamedTuple):
    """A problem's tactics."""

    shape: tuple[int, int, int]
    of_kernel: int  # so many of the facts are the kernel's
    facts: torch.Tensor  # [tactics, facts]
    estimates: torch.Tensor  # logarithms of seconds
    times: torch.Tensor
    fastest: float
    peer: float


class Weights(NamedTuple):
    hidden: torch.Tensor  # [facts, units]
    bias: torch.Tensor  # [units]
    out: torch.Tensor  # [units]

    def answer(self, facts: torch.Tensor) -> torch.Tensor:
        return torch.tanh(facts @ self.hidden + self.bias) @ self.out


def lesson(case: Case) -> Lesson:
    problem = case.measured.problem
    facts, estimates, times, of_kernel = [], [], [], 0
    for name, record in case.records.items():
        kernel = cost_lean.Kernel(record, problem, H200)
        for tactic in (one for one in case.known if one.kernel == name):
            if case.measured.seconds[tactic] > FAR * case.best:
                continue
            parts = kernel.parts(tactic)
            of_kernel = len(kernel.facts())
            facts.append([*kernel.facts(), *kernel.facts_of(parts)])
            estimates.append(math.log(kernel.estimate(parts).seconds))
            times.append(math.log(case.measured.seconds[tactic]))
    peer = case.measured.peer
    known = (torch.tensor(facts), torch.tensor(estimates), torch.tensor(times))
    shape = (problem.m, problem.n, problem.k)
    return Lesson(shape, of_kernel, *known, math.log(case.best), math.log(peer))


def learn(lessons: Sequence[Lesson], seed: int = 0) -> Weights:
    torch.manual_seed(seed)
    facts = torch.cat([one.facts for one in lessons])
    # The network sees facts of mean 0 and deviation 1; what it answers with takes them as they are.
    mean, deviation = facts.mean(0), facts.std(0)
    deviation = torch.where(deviation < 1e-3, 1.0, deviation)  # of a fact that is the same for all
    facts = (facts - mean) / deviation
    wanted = torch.cat([one.times - one.estimates for one in lessons])
    counts = torch.cat([torch.exp((one.fastest - one.times).clamp_max(0) / NEAR) for one in lessons])
    of = torch.cat([torch.full((len(one.times),), index) for index, one in enumerate(lessons)])

    def mean_of_each(values: torch.Tensor) -> torch.Tensor:
        added = torch.zeros(len(lessons)).index_add(0, of, values * counts)
        return added / torch.zeros(len(lessons)).index_add(0, of, counts)

    width = facts.shape[1]
    weights = Weights(torch.randn(width, UNITS) / width**0.5, torch.zeros(UNITS), torch.randn(UNITS) * 0.01)
    for one in weights:
        one.requires_grad_()
    groups = [{"params": [weights.hidden, weights.out], "weight_decay": DECAY}, {"params": [weights.bias]}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS)
    for _ in range(STEPS):
        errors = weights.answer(facts) - wanted
        common = mean_of_each(errors)
        loss = mean_of_each(_cost(errors - common[of])).mean() + COMMON_SHARE * _cost(common).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        hidden = weights.hidden / deviation[:, None]
        return Weights(hidden, weights.bias - mean @ hidden, weights.out.clone())


def _cost(errors: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(1 + (errors / ERROR) ** 2) - 1


def regret(one: Lesson, weights: Weights | None) -> float:
    """The time of the first, over that of the fastest."""
    found = one.estimates
    if weights is not None:
        found = found + weights.answer(one.facts).detach().clamp(-learnt.MOST, learnt.MOST)
    return math.exp(float(one.times[found.argmin()]) - one.fastest)


def report(name: str, lessons: Sequence[Lesson], regrets: Sequence[float]) -> None:
    geomean = math.exp(statistics.fmean(map(math.log, regrets)))
    ratios = [math.exp(one.peer - one.fastest) / each for one, each in zip(lessons, regrets, strict=True)]
    held = statistics.fmean(ratio >= 0.95 for ratio in ratios)
    possible = statistics.fmean(math.exp(one.peer - one.fastest) >= 0.95 for one in lessons)
    print(
        f"{name:<32} {len(lessons):>4} problems: first over fastest {geomean:.4f} in geomean, "
        f"{statistics.fmean(each > 1.1 for each in regrets):.1%} beyond 1.1; "
        f"{held:.1%} at 0.95 of cuBLAS (the fastest: {possible:.1%})"
    )


def dealt(lessons: Iterable[Lesson]) -> list[int]:
    """The fold of each; of one shape the same."""
    draw, folds = random.Random(0), {}
    return [folds.setdefault(one.shape, draw.randrange(FOLDS)) for one in lessons]


def write(weights: Weights, of_kernel: int) -> None:
    rows = weights.hidden.T.tolist()

    def line(values: Iterable[float]) -> str:
        return f"({', '.join(f'{value:.4g}' for value in values)})"

    def table(parts: Iterable[Sequence[float]]) -> str:
        return "(\n" + "".join(f"    {line(part)},\n" for part in parts) + ")"

    text = (
        '"""The weights of `learnt`. Written by `benchmarks/learn_lean_model.py --write`. DO NOT EDIT."""\n\n'
    )
    text += f"# fmt: off\n# ruff: noqa: E501\nBIAS = {line(weights.bias.tolist())}\n"
    text += f"OUT = {line(weights.out.tolist())}\n"
    text += f"OF_KERNEL = {table(row[:of_kernel] for row in rows)}\n"
    text += f"OF_TACTIC = {table(row[of_kernel:] for row in rows)}\n"
    WEIGHTS.write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=Path, nargs="+", default=[DATA])
    parser.add_argument("--write", action="store_true", help=f"learn from all, write {WEIGHTS.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # small matrices
    records = {one.name: one for one in Registry().kernels("gemm") if mainloop_of(one) == "lean"}
    cases = [Case(one, records) for one in read(arguments.times)]
    lessons = [
        lesson(one) for one in cases if one.by_kernel and cost_lean.is_learnt(one.measured.problem, H200)
    ]
    report("the mechanisms", lessons, [regret(one, None) for one in lessons])
    folds = dealt(lessons)
    pairs = list(zip(lessons, folds, strict=True))
    taught = [learn([one for one, its in pairs if its != fold]) for fold in range(FOLDS)]
    report("learnt from other problems", lessons, [regret(one, taught[fold]) for one, fold in pairs])
    if arguments.write:
        weights = learn(lessons)
        report("learnt from all", lessons, [regret(one, weights) for one in lessons])
        write(weights, lessons[0].of_kernel)


if __name__ == "__main__":
    main()
