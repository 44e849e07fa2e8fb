"""Fits the cost model of lean `gemm` kernels to measured times, and says how well it chooses.

    python -m benchmarks.fit.fit_lean_model                     # regret with the constants as they are
    python -m benchmarks.fit.fit_lean_model --fit               # better ones, to be written into cost_lean.py
    python -m benchmarks.fit.fit_lean_model --fit --seeds 61    # to one seed: the report of the other tests
    python -m benchmarks.fit.fit_lean_model --thin RAW.csv.bz2 RAW.csv.bz2   # the committed file

Times are those of tests/runtime/data/h200_lean_times.csv.bz2: of each problem, the finalists, the fastest
others of kernels that are committed, and those that the mechanisms put first, since what is learnt orders
these alone (lean_times.py has timed more). Times in which something else came between are left out. A
problem's regret is the measured time of what the model chooses, over that of the fastest finalist.

Two things are made small. How far estimates of tactics within 1.3 of a problem's fastest are off. And the
regret, of a choice that is not sure: the chance that a tactic is taken falls to 1 / e for every 3 % that the
model puts it behind, so that no single lucky time decides. One constant at a time goes up and down by ever
smaller steps.

The committed constants were fitted to 605 problems of earlier kernels; those of the start, of clusters and of
parts (START_CLOCKS, FULL_START_CLOCKS, FULL_CLUSTER_SHARE, CLUSTER_CLOCKS, SPLIT_CLOCKS) again to a third of
856 of which the file has what is left of their times, after kernels' start had become shorter. What MN-major
operands cost (READ_MN_CLOCKS, MN_ISSUED_CLOCKS, MN_ARRIVING_CLOCKS, MISALIGNED_SHARE) was fitted to 283
problems of other layouts, seed 91 in h200_layout_times.csv.bz2; it has no bearing on the first file's. What
rows that straddle lines cost (STRADDLING_SHARE) was fitted to h200_wide_times.csv.bz2, and has no bearing on
the others'.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import io
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import mul
from pathlib import Path

from benchmarks.lib.times_file import FIELDS, Measured, read, rows

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import cost_lean
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.formats.types import bytes_of
from tilewright.libraries.registry import Registry

DATA = Path(__file__).parents[2] / "tests/runtime/data/h200_lean_times.csv.bz2"
OTHERS = DATA.with_name("h200_layout_times.csv.bz2")  # of other layouts, batches and exact FP8
WIDE = DATA.with_name("h200_wide_times.csv.bz2")  # of extents of multiples of 8, in all layouts
SPLITS = DATA.with_name("h200_split_times.csv.bz2")  # where splits of k compete (split_times.py)
COLD = DATA.with_name("h200_cold_times.csv.bz2")  # on cold code (cold_dense_times.py)
SEEDS = (61, 62)
FITTED = (
    "READ_CLOCKS", "WRITTEN_CLOCKS", "STAGE_CLOCKS", "ISSUED_CLOCKS", "OUTSIDE_CLOCKS", "SYNC_CLOCKS",
    "HBM_SHARE", "REREAD_SHARE", "PAIR_BYTES_PER_CLOCK", "POWER_SHARE", "OVERLAP", "START_CLOCKS",
    "FULL_START_CLOCKS", "FULL_CLUSTER_SHARE", "EPILOGUE_BYTES_PER_CLOCK", "SWAPPED_SHARE", "PARTIAL_SHARE",
    "CLUSTER_CLOCKS", "SPLIT_CLOCKS", "SUBTILE_CLOCKS", "SUMS_BYTES_PER_CLOCK", "READ_MN_CLOCKS",
    "MN_ISSUED_CLOCKS", "MN_ARRIVING_CLOCKS", "MISALIGNED_SHARE", "STRADDLING_SHARE",
)  # fmt: skip
LONG_SECONDS = 6e-5  # of a problem that is reported by itself
NEAR = 1.3  # times the fastest: tactics whose estimates should be right
ERROR = 0.05  # larger errors count by their size, smaller ones by their square
MOST_REGRET = 1.25  # of a tactic: beyond, it was timed once
ERROR_SHARE = 0.03  # of the errors beside the regret
UNSURE = 0.03  # behind the model's first, at which the chance that a tactic is taken has fallen to 1 / e
STEPS = (0.1, 0.05, 0.02)
KEPT, FIRST = 12, 15  # of a problem's tactics: the fastest, and the mechanisms' first
DIGITS = ".4g"  # of times
INTERRUPTED = 2.2  # times as long as a problem's other tactics, by their estimates: something came between


def without_earlier_splits(measured: Measured, records: Mapping[str, KernelRecord]) -> Measured:
    """Leaves out splits of k by kernels that have got a split form since."""
    for tactic in [*measured.seconds]:
        record = records.get(tactic.kernel)
        if tactic.splits > 1 and record is not None and record.config.get("split_form"):
            del measured.seconds[tactic]
            measured.again.discard(tactic)
    return measured


def usual(measured: Measured, records: Mapping[str, KernelRecord]) -> dict[Tactic, float]:
    """Seconds of what a first selection weighs."""
    times = measured.seconds.items()
    return {
        tactic: seconds
        for tactic, seconds in times
        if tactic.raster == "heuristic" and tactic.kernel in records
    }


class Case:
    """A problem, and its tactics by kernel."""

    def __init__(self, measured: Measured, records: Mapping[str, KernelRecord]) -> None:
        self.measured = measured
        times = self.known = usual(measured, records)
        finalists = {tactic: seconds for tactic, seconds in times.items() if tactic in measured.again}
        self.best = min((finalists or times).values())
        self.by_kernel: dict[str, list[Tactic]] = defaultdict(list)
        for tactic in times:
            self.by_kernel[tactic.kernel].append(tactic)
        self.records = {tactic.kernel: records[tactic.kernel] for tactic in times}

    def estimates(self, device: DeviceProperties) -> Iterator[tuple[Tactic, float, float]]:
        """The tactics, each with the model's seconds and the measured ones."""
        tactics = list(itertools.chain(*self.by_kernel.values()))
        pairs = [(self.records[tactic.kernel], tactic) for tactic in tactics]
        refined = FAMILY.refine(pairs, self.measured.problem, device)
        for tactic, estimate, (coarse, seconds) in zip(
            tactics, refined, self.by_mechanisms(device), strict=True
        ):
            yield tactic, estimate.seconds if estimate else coarse, seconds

    def by_mechanisms(self, device: DeviceProperties) -> Iterator[tuple[float, float]]:
        """The estimates by mechanisms, without trees (learn_lean_model.py), and the measured seconds."""
        for name, tactics in self.by_kernel.items():
            weigh = cost_lean.estimator(self.records[name], self.measured.problem, device)
            for tactic in tactics:
                yield weigh(tactic).seconds, self.measured.seconds[tactic]

    def chosen(self, device: DeviceProperties) -> tuple[Tactic, float, float]:
        """The model's first: its estimate and its time."""
        return min(self.estimates(device), key=lambda one: (one[1], one[0]))

    def loss(self, device: DeviceProperties) -> float:
        rows = [(math.log(estimate), math.log(seconds)) for estimate, seconds in self.by_mechanisms(device)]
        fastest, first = math.log(self.best), min(estimate for estimate, _ in rows)
        errors = [estimate - seconds for estimate, seconds in rows if seconds < fastest + math.log(NEAR)]
        own = statistics.fmean(errors)
        error = statistics.fmean(_cost(error - own) for error in errors) + _cost(own)
        chances = [math.exp((first - estimate) / UNSURE) for estimate, _ in rows]
        regrets = [min(seconds - fastest, math.log(MOST_REGRET)) for _, seconds in rows]
        return ERROR_SHARE * error + sum(map(mul, chances, regrets)) / sum(chances)


def _cost(error: float) -> float:
    return math.sqrt(1 + (error / ERROR) ** 2) - 1


def fitted() -> dict[str, float]:
    """The model's fitted constants by name; NAME[KEY] of a table."""
    constants: dict[str, float] = {}
    for name in FITTED:
        value = getattr(cost_lean, name)
        if isinstance(value, dict):
            constants |= {f"{name}[{key!r}]": number for key, number in value.items()}
        else:
            constants[name] = value
    return constants


def put(name: str, value: float) -> None:
    cost_lean.hbm_byte_clocks.cache_clear()
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
        length = "long" if case.best > LONG_SECONDS else "short"
        groups[f"seed {seed}, {bytes_of(problem.a) * 8} bits, {length}"].append(regret)
        groups[f"seed {seed}, {length}"].append(regret)
    for name, regrets in sorted(groups.items()):
        geomean = statistics.geometric_mean(regrets)
        print(
            f"{name:<24} {len(regrets):>4} problems: chosen over fastest {geomean:.4f} in geomean, "
            f"{statistics.fmean(regret > 1.05 for regret in regrets):.1%} beyond 1.05, "
            f"{max(regrets):.3f} at worst"
        )
    for regret, error, case, tactic in sorted(rows, key=lambda row: -row[0])[:worst]:
        fastest = min(case.measured.seconds, key=case.measured.seconds.__getitem__)
        print(f"{regret:.3f}  {case.measured.problem}: {tactic} (model {error:.2f} of it); {fastest}")


def thin(paths: Sequence[Path], records: Mapping[str, KernelRecord]) -> None:
    """Writes DATA, which may be one of the files that are read."""
    problems = read(paths)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for measured in problems:
        case = Case(measured, records)
        shares = {
            tactic: (estimate, seconds / estimate)
            for tactic, (estimate, seconds) in zip(
                itertools.chain(*case.by_kernel.values()), case.by_mechanisms(H200), strict=True
            )
        }
        most = INTERRUPTED * statistics.median(share for _, share in shares.values())
        first = [tactic for tactic in sorted(shares, key=shares.__getitem__) if shares[tactic][1] < most]
        order = sorted(first, key=case.known.__getitem__)
        finalists = [tactic for tactic in order if tactic in measured.again]
        kept = {
            str(tactic): (float(f"{case.known[tactic]:{DIGITS}}"), tactic in measured.again)
            for tactic in [*finalists, *order[:KEPT], *first[:FIRST]]
        }
        writer.writerows(rows(measured.seed, measured.problem, measured.peer, kept))
    DATA.write_bytes(bz2.compress(text.getvalue().encode()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times",
        type=Path,
        nargs="+",
        default=[DATA],
        help="files of lean_times.py; default: the committed one",
    )
    parser.add_argument(
        "--thin", type=Path, nargs="+", metavar="RAW", help="write the committed file of these"
    )
    parser.add_argument("--fit", action="store_true", help="look for better numbers")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the problems that fit")
    parser.add_argument("--only", nargs="+", default=[], help="fit these constants alone")
    parser.add_argument("--worst", type=int, default=10, help="problems to list")
    arguments = parser.parse_args()
    records = {record.name: record for record in Registry().kernels("gemm") if mainloop_of(record) == "lean"}
    if arguments.thin:
        thin(arguments.thin, records)
    cases = [Case(measured, records) for measured in read(arguments.times)]
    if arguments.fit:
        fit([case for case in cases if case.measured.seed in arguments.seeds], H200, arguments.only)
    report(cases, H200, arguments.worst)


if __name__ == "__main__":
    main()
