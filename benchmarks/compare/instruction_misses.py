"""Instruction-cache misses of single launches, ours and the peer's, counted by ncu.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.instruction_misses --output benchmarks/results/FILE

Runs itself under ncu (`--launch`): each product of LISTS is launched once by either side, behind a marker
kernel, after both sides have run and their results were compared. ncu flushes the caches before each launch.
Of several kernels of a call the longest counts. *Misses* are those of the caches of instructions, in all SMs.
*Stalled* is how many warps wait for an instruction, in the mean over the clocks in which one is issued.
Writes OUTPUT.md.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.lib import machine, ratios
from benchmarks.lib.launch_cases import Case, case_of
from benchmarks.lib.random_problems import listed, text_of

LISTS = {
    "scaled": (
        *("48x6144x4096", "128x4096x4096", "128x6144x4096", "128x7168x2048", "128x4096x12288"),
        *("500x4096x4096", "500x2112x7168", "1900x4096x4096"),
    ),
    "bf16": (
        *("16x6144x4096", "48x9728x2560", "128x4096x4096", "400x4096x4096", "400x2560x4864"),
        *("400x9728x2560", "1500x2560x4864", "1900x4096x4096"),
    ),
}
METRICS = {
    "misses": "sm__icc_requests_lookup_miss.sum",
    "stalled": "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "us": "gpu__time_duration.sum",
}
MARKER = "FillFunctor"  # in the name of the kernel that `fill_` launches
NANOSECONDS = 1e-3  # in microseconds: ncu's base unit of a time


class Launch(NamedTuple):
    """What ncu counts of one kernel."""

    kernel: str
    numbers: dict[str, float]  # by the names of METRICS


def cases() -> Iterator[tuple[str, str, Case]]:
    theirs = importlib.import_module("deep_gemm")
    for kind, shapes in LISTS.items():
        for problem in listed(kind, shapes):
            yield kind, text_of(problem), case_of(problem, theirs, sets=1)


def launch() -> None:
    """Launches each product by each side, behind a marker, while ncu counts."""
    marker = torch.empty(1, device="cuda", dtype=torch.int32)
    runtime = torch.cuda.cudart()
    for _, _, case in cases():
        case.check()
        torch.cuda.synchronize()
        runtime.cudaProfilerStart()
        for call in (case.ours, *case.peers.values()):
            marker.fill_(1)
            call(case.sets[0])
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()


def launches(text: str) -> Iterator[Launch]:
    """The kernels of ncu's output in their order. It has a line for each metric of a kernel."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    names = {metric: name for name, metric in METRICS.items()}
    kernels: dict[str, Launch] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines[head:]))):
        kernel = kernels.setdefault(line["ID"], Launch(line["Kernel Name"], {}))
        if line["Metric Name"] in names:
            kernel.numbers[names[line["Metric Name"]]] = float(line["Metric Value"].replace(",", ""))
    yield from kernels.values()


def calls(kernels: Iterable[Launch]) -> list[Launch]:
    """The longest kernel of each call: between two markers."""
    longest: list[Launch | None] = []
    for kernel in kernels:
        if MARKER in kernel.kernel:
            longest.append(None)
            continue
        before = longest[-1]
        if before is None or before.numbers["us"] < kernel.numbers["us"]:
            longest[-1] = kernel
    return [kernel for kernel in longest if kernel is not None]


def rows_of(problems: Sequence[Mapping[str, Any]], counted: Sequence[Launch]) -> list[dict[str, Any]]:
    """A row for each problem: `counted` has ours and the peer's launch of each."""
    if len(counted) != 2 * len(problems):
        raise ValueError(f"ncu counted {len(counted)} launches; expected two of {len(problems)} problems")
    rows = []
    for problem, ours, peer in zip(problems, counted[::2], counted[1::2], strict=True):
        row = dict(problem)
        for name in METRICS:
            values = ours.numbers[name], peer.numbers[name]
            if name == "us":
                values = tuple(round(value * NANOSECONDS, 3) for value in values)  # type: ignore[assignment]
            row |= {name: values[0], f"peer_{name}": values[1]}
        rows.append(row | {"ratio": round(row["peer_misses"] / row["misses"], 4)})
    return rows


def page(head: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Instruction-cache misses of single launches, ours and the peer's",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. ncu flushes "
        "caches before each launch. *Misses* are those of the caches of "
        "instructions, in all SMs; *stalled* is how many warps wait for an instruction, in the mean over the "
        "clocks in which one is issued. A ratio is the peer's misses over ours.",
        "",
    ]
    summaries = ratios.summaries(rows, ("kind",))
    lines += [*ratios.table(list(summaries[0]), [[*each.values()] for each in summaries]), ""]
    columns = list(rows[0])
    lines += ratios.table(columns, [[row[name] for name in columns] for row in rows])
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launch", action="store_true", help="only launch, for ncu")
    parser.add_argument("--output", type=Path, help="without extension")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    if options.launch:
        launch()
        return 0
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    command = [ncu, "--csv", "--print-units", "base", "--profile-from-start", "off"]
    command += ["--clock-control", "none"]  # a killed ncu would leave the clock at its base
    command += ["--metrics", ",".join(METRICS.values())]
    command += [sys.executable, "-m", "benchmarks.compare.instruction_misses", "--launch"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    if answer.returncode:
        print(answer.stdout[-2000:] + answer.stderr[-2000:], file=sys.stderr)
        return 1
    problems = [{"kind": kind, "problem": name, "tactic": case.choice()} for kind, name, case in cases()]
    rows = rows_of(problems, calls(launches(answer.stdout)))
    text = page(machine.gpu_run("benchmarks.compare.instruction_misses"), rows)
    print(text)
    if options.output:
        machine.write_page(options.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
