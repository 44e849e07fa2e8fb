"""Quantising on a GPU beside a copy of as many bytes, and beside torch.compile of the same mathematics.

    python -m benchmarks.compare.quantize_bandwidth --format nvfp4 --x bf16 \
        --output results/quantize_nvfp4_bf16

For each shape of shapes/quantize.yaml (with --quick, of its coarse grid), one run times every tactic of every
built kernel that selection considers (exact kernels; with --fast also fast ones); the selected tactic; a
device-to-device copy that moves as many bytes; and torch.compile's kernels (quantize_peer.py). Each result is
checked bit for bit. All are CUDA graphs of calls that take buffers in turn, so that L2 is cold also for small
data; the times are medians of replays. An empty kernel is timed the same way. A ratio is the peer's time over
ours.
Writes OUTPUT.md after each shape, and prints which of the aims are met. --minutes ends the run in time.
"""

from __future__ import annotations

import argparse
import functools
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from benchmarks.lib import machine, quantize_peer

from tilewright import context, scale_factors
from tilewright.architectures.device import driver
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.families.quantize import measuring
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.problem import BLOCK, FORMATS, LAYOUTS, X_TYPES, Problem
from tilewright.tools.benchmarking.report import geomean
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import graph_seconds

SHAPES = Path(__file__).parents[1] / "shapes" / "quantize.yaml"
MIB = 2**20
LARGE, COMPARED = 256 * MIB, 64 * MIB  # bytes moved: from there on the aims for bandwidth and the peer count
BANDWIDTH = {"e4m3": 0.75}  # of a copy's, at least; 0.9 of other inputs
ABOVE_EMPTY = 3e-6  # seconds that the smallest shape may take more than an empty kernel
SELECTED_WITHIN = 0.03
EMPTY_CALLS = 64


def problems(options: argparse.Namespace) -> Iterator[Problem]:
    """The grid, the smallest shapes first."""
    listed = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    grid = listed["quick"] if options.quick else listed
    kind = Problem(
        1, 1, format=options.format, x=options.x, layout=options.layout or LAYOUTS[options.format][0],
        global_scale="tensor" if options.format == "nvfp4" else "none", exact=not options.fast,
    )  # fmt: skip
    sizes = [(m, k) for m in options.m or grid["m"] for k in options.k or grid["k"]]
    for m, k in sorted(sizes, key=lambda size: (size[0] * size[1], size)):
        if m * k <= listed["max_elements"]:
            yield replace(kind, m=m, k=k)


def empty_seconds() -> float:
    """Seconds of a kernel that does nothing."""
    return graph_seconds([functools.partial(torch.cuda._sleep, 0)] * EMPTY_CALLS)


class Bench:
    """One kind of problem on the current GPU."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.context = context.current()
        self.device = self.context.device(torch.cuda.current_device())
        self.replays = options.replays
        self.empty = empty_seconds()
        self.peer: quantize_peer.Compiled | None = None
        if not options.no_peer and options.format in quantize_peer.BLOCK:
            self.peer = quantize_peer.Compiled(options.format)

    def measure(self, problem: Problem) -> dict[str, Any]:
        operands = make_operands(measuring, problem, self.device)
        registry = self.context.registry
        kernels = FAMILY.fitting(registry.route(FAMILY.name, self.device), problem)
        times: dict[Tactic, float] = {}
        for record in kernels:
            if registry.is_built(record):
                for tactic in FAMILY.candidates(record, problem, self.device):
                    times[tactic] = self.seconds(operands, tactic)
        selected = self.context.select(FAMILY, problem, self.device).tactic
        if selected not in times:
            times[selected] = self.seconds(operands, selected)
        variant = {record.name: record.config["variant"] for record in kernels}
        best = {
            name: min(
                (value for tactic, value in times.items() if variant[tactic.kernel] == name), default=None
            )
            for name in ("vector", "tma")
        }
        for operand in operands:
            measuring.copy_as_much(operand)  # makes its buffers, ahead of the capture
        copies = [functools.partial(measuring.copy_as_much, operand) for operand in operands]
        copy = graph_seconds(copies, replays=self.replays)
        for operand in operands:
            del operand.copied  # the peer needs memory of its own
        row = {
            "m": problem.m, "k": problem.k, "bytes": problem.bytes, "sets": len(operands),
            "tactics": {str(tactic): times[tactic] for tactic in sorted(times, key=times.__getitem__)},
            "vector": best["vector"], "tma": best["tma"], "selected": str(selected),
            "seconds": times[selected], "fastest": min(times.values()), "copy": copy, "empty": self.empty,
        }  # fmt: skip
        return row | self.against_peer(problem, operands)

    def seconds(self, operands: list[measuring.Operands], tactic: Tactic) -> float:
        checked(operands[0], tactic)
        calls = [functools.partial(operand.call, tactic) for operand in operands]
        return graph_seconds(calls, replays=self.replays)

    def against_peer(self, problem: Problem, operands: list[measuring.Operands]) -> dict[str, Any]:
        """The peer's seconds, and the share of its bytes that are not ours."""
        if self.peer is None:
            return {"peer": None, "peer_differs": None}
        try:
            data, scales = self.peer(*peer_operands(operands[0]))
            operands[0].call()
            differs = [
                _differing(data, operands[0].out),
                _differing(scales, self._plain(problem, operands[0].out_scales)),
            ]
            del data, scales
            calls = [functools.partial(self.peer, *peer_operands(operand)) for operand in operands]
            return {"peer": graph_seconds(calls, replays=self.replays), "peer_differs": max(differs)}
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return {"peer": None, "peer_differs": None}

    def _plain(self, problem: Problem, scales: Any) -> torch.Tensor:
        if problem.format.startswith("fp8"):
            return scales
        block = BLOCK[problem.format][1]
        return scale_factors.unswizzle(scales, problem.m, problem.k, block, problem.layout)  # type: ignore[arg-type]


def peer_operands(operands: measuring.Operands) -> tuple[torch.Tensor, torch.Tensor | None]:
    """x, and the global scale of NVFP4."""
    return operands.x, vars(operands).get("global_scale")


def _differing(actual: torch.Tensor, expected: Any) -> float:
    """The share of elements that differ. Compares in parts, because a comparison of all takes memory."""
    if actual.element_size() == 1:
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    parts = zip(actual.split(8192), expected.split(8192), strict=True)
    return sum(int((x != y).sum()) for x, y in parts) / max(1, actual.numel())


def aims(rows: list[dict[str, Any]], x: str) -> list[tuple[str, bool | None, str]]:
    """The aims as text, whether each holds (None if no row can tell), and the number that decides."""
    large = [row["copy"] / row["seconds"] for row in rows if row["bytes"] > LARGE]
    least = BANDWIDTH.get(x, 0.9)
    smallest = min(rows, key=lambda row: row["bytes"])
    above = smallest["seconds"] - smallest["empty"]
    both = [row for row in rows if row["vector"] is not None and row["tma"] is not None]
    behind = [(row["seconds"] / min(row["vector"], row["tma"]) - 1, row) for row in both]
    worst = max(behind, key=lambda pair: pair[0], default=None)
    peers = [row["peer"] / row["seconds"] for row in rows if row["peer"] and row["bytes"] > COMPARED]
    return [
        (
            f"at least {least:.0%} of the copy's bandwidth above 256 MiB",
            min(large) >= least if large else None,
            f"least {min(large):.1%}, geomean {geomean(large):.1%} of {len(large)}" if large else "no shape",
        ),
        (
            f"the smallest shape within {ABOVE_EMPTY * 1e6:.0f} us of an empty kernel", above <= ABOVE_EMPTY,
            f"{above * 1e6:+.2f} us",
        ),
        (
            f"the selection within {SELECTED_WITHIN:.0%} of the better variant",
            worst[0] <= SELECTED_WITHIN if worst else None,
            f"at worst {worst[0]:+.1%}, at {worst[1]['m']}x{worst[1]['k']}" if worst else "one variant only",
        ),
        (
            "at least 1.0 of torch.compile above 64 MiB",
            min(peers) >= 1 if peers else None,
            f"least {min(peers):.2f}, geomean {geomean(peers):.2f} of {len(peers)}" if peers else "no peer",
        ),
    ]  # fmt: skip


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"# Quantising {head['x']} to {head['format']}, scales {head['layout']}, on {head['gpu']}"
    yield ""
    program = "benchmarks/compare/quantize_bandwidth.py"
    yield f"{head['date']}, driver {head['driver']}, torch {head['torch']}; {program}."
    yield ""
    for aim, holds, number in aims(rows, head["x"]):
        yield f"- {'?' if holds is None else 'yes' if holds else 'NO'}: {aim}: {number}"
    every = [row["peer"] / row["seconds"] for row in rows if row["peer"]]
    if every:
        differs = max(row["peer_differs"] for row in rows if row["peer"])
        yield (
            f"- torch.compile over all {len(every)} shapes: geomean {geomean(every):.2f}, "
            f"least {min(every):.2f}; at most {differs:.2g} of its bytes differ from the exact ones"
        )
    yield ""
    yield "| m | k | MB | us | TB/s | of a copy | vector us | tma us | torch.compile | selected |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for row in rows:
        us = {name: "-" if row[name] is None else f"{row[name] * 1e6:.2f}" for name in ("vector", "tma")}
        peer = f"{row['peer'] / row['seconds']:.2f}" if row["peer"] else "-"
        yield (
            f"| {row['m']} | {row['k']} | {row['bytes'] / 1e6:.1f} | {row['seconds'] * 1e6:.2f} "
            f"| {row['bytes'] / row['seconds'] * 1e-12:.2f} | {row['copy'] / row['seconds']:.1%} "
            f"| {us['vector']} | {us['tma']} | {peer} | {row['selected']} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", default="nvfp4", choices=FORMATS, help="format that is written")
    parser.add_argument("--x", default="bf16", choices=X_TYPES, help="type of the input")
    parser.add_argument("--layout", help="of the scales; default: the first that the format has")
    parser.add_argument("--m", type=int, action="append", help="instead of the grid's")
    parser.add_argument("--k", type=int, action="append", help="instead of the grid's")
    parser.add_argument("--quick", action="store_true", help="the coarse grid")
    parser.add_argument("--fast", action="store_true", help="fast arithmetic may be selected")
    parser.add_argument("--no-peer", action="store_true", help="leave torch.compile out")
    parser.add_argument("--replays", type=int, default=15, help="of each graph; a time is their median")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no shape later than this")
    parser.add_argument("--output", required=True, help="path without its ending")
    options = parser.parse_args()
    machine.require_gpu()
    begun = time.monotonic()
    bench = Bench(options)
    rows: list[dict[str, Any]] = []
    output = Path(options.output)
    listed = list(problems(options))
    head = {
        "format": options.format, "x": options.x, "layout": listed[0].layout, "fast": options.fast,
        "gpu": torch.cuda.get_device_name(), "driver": driver() or "unknown", "torch": torch.__version__,
        "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"), "empty": bench.empty,
    }  # fmt: skip
    print(f"an empty kernel: {bench.empty * 1e6:.2f} us", flush=True)
    for problem in listed:
        if time.monotonic() - begun > 60 * options.minutes:
            print(f"{len(listed) - len(rows)} shapes are left out: {options.minutes:g} minutes are over")
            break
        try:
            row = bench.measure(problem)
        except TilewrightError as error:
            print(f"{problem}: {error}", file=sys.stderr)
            return 1
        rows.append(row)
        torch.cuda.empty_cache()
        peer = f", torch.compile {row['peer'] / row['seconds']:5.2f}" if row["peer"] else ""
        print(
            f"{problem.m:6} x {problem.k:5} {row['seconds'] * 1e6:9.2f} us"
            f"{row['bytes'] / row['seconds'] * 1e-12:6.2f} TB/s "
            f"{row['copy'] / row['seconds']:6.1%} of a copy, "
            f"selection {row['seconds'] / row['fastest'] - 1:+5.1%}{peer}  {row['selected']}",
            flush=True,
        )
        machine.write_page(output, "\n".join(markdown(head, rows)) + "\n")
    for aim, holds, number in aims(rows, options.x):
        print(f"{'?  ' if holds is None else 'yes' if holds else 'NO '} {aim}: {number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
