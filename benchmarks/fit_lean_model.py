"""Fits the cost model of lean `gemm` kernels to measured times, and says how well it chooses.

    python benchmarks/fit_lean_model.py                     # regret with the constants as they are
    python benchmarks/fit_lean_model.py --fit               # better ones, to be written into cost_lean.py
    python benchmarks/fit_lean_model.py --thin RAW.csv.gz RAW.csv.gz   # makes the committed file of raw ones

Times are those of tests/runtime/data/h200_lean_times.csv.gz: of each problem, the fastest tactics of kernels
that are committed, and every sixth of the others (lean_times.py has timed all). Problems of one seed, and
those of shapes/gemm.yaml, fit; those of the other seed test. A problem's regret is the measured time of what
the model chooses, over that of the fastest. Problems beyond 0.3 ms fit nothing: tactics were timed at clocks
that the GPU's power, and so the tactic before, decided.

What is made small is how far estimates of tactics within 1.3 of a problem's fastest are off, against each
other (a problem's own error counts a third): not the regret itself, since the fastest of 150 times is one of
those that came out lucky, and constants that choose those choose worse when both are measured again. One
constant at a time goes up and down by ever smaller steps. BOX_NORM is not fitted: softer norms err as little,
and chose worse.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from times_file import FIELDS, PEER, Measured, read

from tilewright.device import H200, DeviceProperties
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import cost_lean, lean
from tilewright.registry import Registry
from tilewright.table import KernelRecord
from tilewright.types import bytes_of

DATA = Path(__file__).parents[1] / "tests/runtime/data/h200_lean_times.csv.gz"
FIT_SEEDS, TEST_SEED = (0, 11), 2026
FITTED = (
    "WRITTEN_CLOCKS", "STAGE_CLOCKS", "TAKEN_CLOCKS", "L2_BYTES_PER_CLOCK", "SYNC_CLOCKS", "HBM_SHARE",
    "AGAIN_SHARE", "PAIR_BYTES_PER_CLOCK", "OVERLAP", "START_CLOCKS", "FULL_START_CLOCKS",
    "EPILOGUE_BYTES_PER_CLOCK", "CLUSTER_CLOCKS", "EXCHANGE_CLOCKS", "LAID_BYTES_PER_CLOCK", "PIECE_CLOCKS",
    "ADDED_BYTES_PER_CLOCK",
)  # fmt: skip
LONGEST_SECONDS = 3e-4  # of a problem that fits
NEAR = 1.3  # times the fastest: tactics whose estimates should be right
ERROR = 0.05  # beyond which an error counts by its size, not by its square
OWN_SHARE = 0.3  # of a problem's own error
STEPS = (0.1, 0.05, 0.02)
KEPT, EVERY = 24, 6  # of a problem's tactics: the fastest, and of the others one in so many


def usual(measured: Measured, records: Mapping[str, KernelRecord]) -> dict[Tactic, float]:
    """Seconds of what a first selection weighs."""
    found = measured.seconds.items()
    return {one: seconds for one, seconds in found if one.raster == "heuristic" and one.kernel in records}


class Case:
    """A problem, and its tactics by kernel."""

    def __init__(self, measured: Measured, records: Mapping[str, KernelRecord]) -> None:
        self.measured = measured
        known = usual(measured, records)
        self.best = min(known.values())
        self.by_kernel: dict[str, list[Tactic]] = defaultdict(list)
        for tactic in known:
            self.by_kernel[tactic.kernel].append(tactic)
        self.records = {name: records[name] for name in self.by_kernel}

    def estimates(self, device: DeviceProperties) -> Iterator[tuple[Tactic, float, float]]:
        """Each tactic with the model's seconds and the measured ones."""
        for name, tactics in self.by_kernel.items():
            weigh = cost_lean.estimator(self.records[name], self.measured.problem, device)
            for tactic in tactics:
                yield tactic, weigh(tactic).seconds, self.measured.seconds[tactic]

    def chosen(self, device: DeviceProperties) -> tuple[Tactic, float, float]:
        """The model's first: its estimate and its time."""
        return min(self.estimates(device), key=lambda one: (one[1], one[0]))

    def loss(self, device: DeviceProperties) -> float:
        near = [one for one in self.estimates(device) if one[2] < NEAR * self.best]
        errors = [math.log(estimate / seconds) for _, estimate, seconds in near]
        own = statistics.fmean(errors)
        return statistics.fmean(map(_cost, (error - own for error in errors))) + _cost(OWN_SHARE * own)


def _cost(error: float) -> float:
    return math.sqrt(1 + (error / ERROR) ** 2) - 1


def fitted() -> dict[str, float]:
    """The model's fitted constants by name; NAME[KEY] of a table."""
    found: dict[str, float] = {}
    for name in FITTED:
        value = getattr(cost_lean, name)
        if isinstance(value, dict):
            found |= {f"{name}[{key!r}]": number for key, number in value.items()}
        else:
            found[name] = value
    return found


def put(name: str, value: float) -> None:
    table, bracket, rest = name.partition("[")
    if not bracket:
        setattr(cost_lean, name, value)
        return
    entries = getattr(cost_lean, table)
    entries[next(key for key in entries if f"{key!r}]" == rest)] = value


def fit(cases: Sequence[Case], device: DeviceProperties, only: Sequence[str]) -> None:
    """Changes the model's constants, and prints what improves."""

    def total() -> float:
        return statistics.fmean(case.loss(device) for case in cases)

    values = {name: value for name, value in fitted().items() if not only or name in only}
    best = total()
    print(f"loss {best:.5f}", flush=True)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for name, value in list(values.items()):
                for tried in (value * (1 + step), value / (1 + step)):
                    put(name, tried)
                    if (loss := total()) < best - 1e-6:
                        best, values[name], improved = loss, tried, True
                        print(f"loss {best:.5f} with {name} = {tried:.4g}", flush=True)
                        break
                    put(name, value)
    for name, value in values.items():
        put(name, float(f"{value:.3g}"))
        print(f"{name} = {value:.3g}")


def report(cases: Iterable[Case], device: DeviceProperties, worst: int) -> None:
    groups: dict[str, list[float]] = defaultdict(list)
    rows = []
    for case in cases:
        problem = case.measured.problem
        tactic, estimate, seconds = case.chosen(device)
        regret, seed = seconds / case.best, case.measured.seed
        rows.append((regret, estimate / seconds, case, tactic))
        length = "long" if case.best >= LONGEST_SECONDS else "short"
        groups[f"seed {seed}, {bytes_of(problem.a) * 8} bits, {length}"].append(regret)
        groups[f"seed {seed}, {length}"].append(regret)
    for name, regrets in sorted(groups.items()):
        geomean = math.exp(statistics.fmean(map(math.log, regrets)))
        print(
            f"{name:<24} {len(regrets):>4} problems: chosen over fastest {geomean:.4f} in geomean, "
            f"{statistics.fmean(one > 1.05 for one in regrets):.1%} beyond 1.05, {max(regrets):.3f} at worst"
        )
    for regret, error, case, tactic in sorted(rows, key=lambda row: -row[0])[:worst]:
        fastest = min(case.measured.seconds, key=case.measured.seconds.__getitem__)
        print(f"{regret:.3f}  {case.measured.problem}: {tactic} (model {error:.2f} of it); {fastest}")


def thin(paths: Sequence[Path], records: Mapping[str, KernelRecord]) -> None:
    """Writes DATA."""
    with gzip.GzipFile(DATA, "wb", mtime=0) as binary:
        rows = ["".join(f"{word}," for word in FIELDS)[:-1]]
        for one in read(paths):
            seconds = usual(one, records)
            order = sorted(seconds, key=seconds.__getitem__)
            keep = [*order[:KEPT], *order[KEPT::EVERY]]
            problem = one.problem
            dtype = {"e4m3": "fp8"}.get(problem.a, problem.a)
            head = f"{dtype},{one.seed},{problem.m},{problem.n},{problem.k}"
            rows.append(f"{head},{PEER},{one.peer * 1e6:.3f},1")
            for tactic in keep:
                text = f'"{tactic}"' if "," in str(tactic) else str(tactic)
                rows.append(f"{head},{text},{seconds[tactic] * 1e6:.3f},{int(tactic in one.again)}")
        binary.write(("\n".join(rows) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=Path, nargs="+", default=[DATA])
    parser.add_argument(
        "--thin", type=Path, nargs="+", metavar="RAW", help="write the committed file of these"
    )
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], help="fit these constants alone")
    parser.add_argument("--worst", type=int, default=10, help="problems to list")
    arguments = parser.parse_args()
    records = {one.name: one for one in Registry().kernels("gemm") if lean.is_lean(one)}
    if arguments.thin:
        thin(arguments.thin, records)
    cases = [Case(one, records) for one in read(arguments.times)]
    if arguments.fit:
        few = [one for one in cases if one.measured.seed in FIT_SEEDS and one.best < LONGEST_SECONDS]
        fit(few, H200, arguments.only)
    report(cases, H200, arguments.worst)


if __name__ == "__main__":
    main()
