"""Instruction-cache misses of single launches, ours and the peer's, counted by ncu.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.instruction_misses --output benchmarks/results/FILE

Runs itself under ncu (`--launch`): each product of LISTS is launched once by either side, behind a marker
kernel, after both sides have run and their results were compared. ncu flushes the caches before each launch.
Of several kernels of a call the longest counts. *Misses* are those of the caches of instructions, in all SMs.
*Stalled* is how many warps wait for an instruction, in the mean over the clocks in which one is issued.
Writes OUTPUT.md.

With --tactics FILE, products are launched by given tactics alone, to compare kernels with those of another
revision, whose tree has this program, too. A line of the file is a kind, a shape and a tactic:
`scaled 128x4096x4096 NAME@cluster=2x1`.
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
from benchmarks.lib.launch_cases import Call, Case, case_of
from benchmarks.lib.random_problems import Drawn, listed, text_of

from tilewright.declarations.tactics import Tactic

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
    """One kernel's launch, as ncu counts it."""

    kernel: str
    numbers: dict[str, float]  # by the names of METRICS


class Product(NamedTuple):
    """A product, and the calls that compute it: ours, and the peer's if there is one."""

    kind: str
    case: Case
    problem: str
    tactic: str
    calls: tuple[Call, ...]


def products(kinds: Iterable[str]) -> Iterator[Product]:
    """The products of LISTS, by the runtime's choice and by the peer."""
    theirs = importlib.import_module("deep_gemm")
    for kind in kinds:
        for problem in listed(kind, LISTS[kind]):
            case = case_of(problem, theirs, sets=1)
            calls = (case.ours, *case.peers.values())
            yield Product(kind, case, text_of(problem), case.choice() or "", calls)


def products_by_tactics(lines: Iterable[str]) -> Iterator[Product]:
    for kind, problem, tactic in map(parsed_line, lines):
        case = case_of(problem, None, sets=1)
        yield Product(kind, case, text_of(problem), str(tactic), (lambda x, by=tactic: x.call(by),))  # type: ignore[misc]


def parsed_line(line: str) -> tuple[str, Drawn, Tactic]:
    """The kind, the problem and the tactic of a line of --tactics."""
    kind, shape, tactic = line.split()
    (problem,) = listed(kind, [shape])
    return kind, problem, Tactic.parse(tactic)


def launch(launched: Iterable[Product]) -> None:
    """Launches each product by each call, behind a marker, while ncu counts."""
    marker = torch.empty(1, device="cuda", dtype=torch.int32)
    runtime = torch.cuda.cudart()
    for product in launched:
        operands = product.case.sets[0]
        if len(product.calls) > 1:
            product.case.check()
        else:
            product.calls[0](operands)
        torch.cuda.synchronize()
        runtime.cudaProfilerStart()
        for call in product.calls:
            marker.fill_(1)
            call(operands)
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()


def launches(text: str) -> Iterator[Launch]:
    """The kernels of ncu's output in their order. It has a line for each metric of a kernel."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    names = {metric: name for name, metric in METRICS.items()}
    kernels: dict[str, Launch] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines[head:]))):
        if not line.get("Metric Value"):
            continue  # a message of ncu's
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


def rows_of(
    problems: Sequence[Mapping[str, Any]], counted: Sequence[Launch], sides: int
) -> list[dict[str, Any]]:
    """A row for each problem: `counted` has the launch of each side, of which the first is ours."""
    if len(counted) != sides * len(problems):
        raise ValueError(
            f"ncu counted {len(counted)} launches; expected {sides * len(problems)}: {sides} of each of "
            f"{len(problems)} problems"
        )
    rows = []
    for place, problem in enumerate(problems):
        row = dict(problem)
        launched = counted[place * sides : (place + 1) * sides]
        for name in METRICS:
            for prefix, side in zip(("", "peer_"), launched, strict=False):
                value = side.numbers[name]
                row[prefix + name] = round(value * NANOSECONDS, 3) if name == "us" else value
        if sides > 1:
            row["ratio"] = round(row["peer_misses"] / row["misses"], 4)
        rows.append(row)
    return rows


def page(head: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Instruction-cache misses of single launches",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. ncu flushes "
        "caches before each launch. *Misses* are those of the caches of "
        "instructions, in all SMs; *stalled* is how many warps wait for an instruction, in the mean over the "
        "clocks in which one is issued. A ratio is the peer's misses over ours.",
        "",
    ]
    if "ratio" in rows[0]:
        summaries = ratios.summaries(rows, ("kind",))
        lines += [*ratios.table(list(summaries[0]), [[*each.values()] for each in summaries]), ""]
    columns = list(rows[0])
    lines += ratios.table(columns, [[row[name] for name in columns] for row in rows])
    return "\n".join(lines) + "\n"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=LISTS, nargs="+", default=list(LISTS), help="of LISTS")
    parser.add_argument(
        "--tactics", type=Path, metavar="FILE", help="products and tactics, in place of LISTS"
    )
    parser.add_argument("--launch", action="store_true", help="only launch, for ncu")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def ncu_command(options: argparse.Namespace) -> list[str]:
    """The command that runs this program's --launch under ncu."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    command = [ncu, "--csv", "--print-units", "base", "--profile-from-start", "off"]
    command += ["--clock-control", "none"]  # a killed ncu would leave the clock at its base
    command += ["--metrics", ",".join(METRICS.values())]
    command += [sys.executable, "-m", "benchmarks.compare.instruction_misses", "--launch"]
    command += ["--kind", *options.kind]
    return command + (["--tactics", str(options.tactics)] if options.tactics else [])


def main() -> int:
    options = parsed()
    machine.require_gpu()

    def chosen() -> Iterator[Product]:
        if options.tactics:
            return products_by_tactics(options.tactics.read_text(encoding="utf-8").splitlines())
        return products(options.kind)

    if options.launch:
        launch(chosen())
        return 0
    answer = subprocess.run(ncu_command(options), check=False, capture_output=True, text=True)
    if answer.returncode:
        print(answer.stdout[-2000:] + answer.stderr[-2000:], file=sys.stderr)
        return 1
    problems = [
        {"kind": product.kind, "problem": product.problem, "tactic": product.tactic} for product in chosen()
    ]
    rows = rows_of(problems, calls(launches(answer.stdout)), sides=1 if options.tactics else 2)
    text = page(machine.gpu_run("benchmarks.compare.instruction_misses"), rows)
    print(text)
    if options.output:
        machine.write_page(options.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
