"""MQA logits on a GPU by our kernels and by DeepGEMM's: the same calls of both modules, in one run.

    python -m benchmarks.compare.mqa_logits [ragged] [paged] [--first N] --output results/mqa_logits

`deep_gemm` is imported from the environment if it is there (2.6 or newer, built for this torch); ours is
`tilewright.compat.deep_gemm`. For pages, a copy on the device that moves as many bytes is timed too. All
sides are CUDA graphs of calls that take operands in turn, so that L2 is cold; the times are medians of
rounds in which the sides take turns. A ragged query attends to the keys up to its own position, the last
query to all; only these keys count as work. For pages, each sequence's keys count as read once. Some rows
of our results are compared with float64 first, by DeepGEMM's measure of a difference. Writes OUTPUT.md
after each problem.

`--first N` takes the first N problems of each form. `--warm` lets DeepGEMM compile its kernels, and times
nothing.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine
from benchmarks.lib.in_turn import replayed
from benchmarks.lib.mqa_logits_cases import CASES, Case, Paged, Ragged

from tilewright import context
from tilewright.architectures.device import driver
from tilewright.compat import deep_gemm as ours
from tilewright.families.mqa_logits.family import FAMILY
from tilewright.tools import timing
from tilewright.tools.reference.comparison import difference

try:
    import deep_gemm
except ImportError:
    deep_gemm = None

ROUNDS = 9
CALLS = 8  # of a graph at least, so that its own launch does not count ...
MOST_SECONDS = 4e-3  # ... but of long ones
MOST_BYTES = 24 * 10**9  # of all results of a graph
TOLERANCE = {"f32": 5e-6, "bf16": 3e-5}
CHECKED = 24  # rows


def check(operands: Ragged | Paged, logits: torch.Tensor) -> float:
    """The difference of some rows. Raises ValueError if it is too large."""
    x, y = [], []
    for query in range(0, len(logits), max(1, len(logits) // CHECKED)):
        expected, end = operands.row(query)
        x.append(logits[query, :end])
        y.append(expected[:end])
    result = difference(torch.cat(x), torch.cat(y))
    if not result <= TOLERANCE[operands.case.d]:
        raise ValueError(f"{operands.case}: difference {result:.2e}")
    return result


def peer_takes(case: Case) -> bool:
    """Whether DeepGEMM is installed and has a kernel for the case on sm_90."""
    paged = case.queries <= 2 and case.head_dim == 128
    fp8 = case.q == "e4m3"  # FP4 is Blackwell's there
    return deep_gemm is not None and fp8 and case.heads in {32, 64} and (case.form == "ragged" or paged)


def warm(cases: list[Case]) -> None:
    """Lets DeepGEMM compile the cases' kernels, on smaller problems that have the same kernels."""
    generator = torch.Generator("cuda").manual_seed(1)
    for case in cases:
        if peer_takes(case):
            few = {"sequences": 3} if case.form == "paged" else {"queries": 100}
            small = replace(case, keys=500, **few)
            (Ragged if case.form == "ragged" else Paged)(small, generator).call(deep_gemm)
            torch.cuda.synchronize()
            print(f"warm: {case.text}", flush=True)


def measure(case: Case) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    generator = torch.Generator("cuda").manual_seed(1)
    make = Ragged if case.form == "ragged" else Paged
    first = make(case, generator)
    logits = first.call(ours)
    wrong = check(first, logits)
    rough = first.looked * case.heads * case.head_dim * 2 / 1e15 + first.bytes / 4e12
    sets = max(1, min(timing.rotations(first.bytes, device.l2_bytes), int(4e9 / first.bytes)))
    operands = [first, *(make(case, generator) for _ in range(sets - 1))]
    count = min(CALLS, max(1, int(MOST_SECONDS / rough)), max(1, MOST_BYTES // logits.nbytes))
    operands *= -(-count // len(operands))
    del logits
    modules = {"ours": ours} | ({"deep_gemm": deep_gemm} if peer_takes(case) else {})
    for module in modules.values():
        for operand in operands:
            operand.call(module)  # and makes its schedule
    torch.cuda.synchronize()
    sides = {
        name: timing.Replays([functools.partial(operand.call, module) for operand in operands])
        for name, module in modules.items()
    }
    if case.form == "paged":
        sides["copy"] = timing.Replays([in_turn.copy_of(operand.bytes) for operand in operands])
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return asdict(case) | {
        "looked": first.looked, "bytes": first.bytes, "difference": wrong, "calls": len(operands),
        "kernel": str(here.select(FAMILY, first.problem, device).tactic),
        "seconds": seconds,
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    seconds, case = row["seconds"], Case(**{name: row[name] for name in Case.__dataclass_fields__})
    took, work = seconds["ours"], 2 * row["looked"] * case.heads * case.head_dim

    def over(side: str) -> str:
        return f"{seconds[side] / took:.2f}" if side in seconds else ""

    clean = ", cleaned" * case.clean
    rates = f"{work / took * 1e-12:,.0f} | {row['bytes'] / took * 1e-12:.2f}"
    kernel = row["kernel"].replace("mqa_logits_sm90_", "")
    return (
        f"| {case.text}{clean} | {took * 1e6:.1f} | {rates} | {over('deep_gemm')} | {over('copy')} "
        f"| {row['difference']:.0e} | `{kernel}` |"
    )


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"# mqa_logits on {head['gpu']}"
    yield ""
    yield f"`{head['command']}`, driver {head['driver']}, torch {head['torch']}."
    yield "Ratios: the other's time over ours."
    yield ""
    yield "| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | DeepGEMM | copy | difference | |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    yield from map(line, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forms", nargs="*", default=["ragged", "paged"], help="ragged, paged or both")
    parser.add_argument("--output", type=Path, required=True, help="path of the page, without extension")
    parser.add_argument("--first", type=int, help="measure so many cases of each form; default: all")
    parser.add_argument("--warm", action="store_true", help="have DeepGEMM compile, and time nothing")
    options = parser.parse_args()
    machine.require_gpu()
    cases = [case for form in options.forms for case in CASES[form][: options.first]]
    if options.warm:
        warm(cases)
        return
    head = {
        "gpu": torch.cuda.get_device_name(), "driver": driver(), "torch": torch.__version__,
        "command": f"python -m benchmarks.compare.mqa_logits {' '.join(sys.argv[1:])}",
    }  # fmt: skip
    rows = []
    for case in cases:
        rows.append(measure(case))
        print(line(rows[-1]), flush=True)
        machine.write_page(options.output, "\n".join(markdown(head, rows)) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
