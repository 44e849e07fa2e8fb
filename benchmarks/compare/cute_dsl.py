"""Kernels in CuTe-DSL beside those of other compilers, on problems drawn at random.

    python -m benchmarks.compare.cute_dsl gemm --seed 31 --output benchmarks/results/cute_dsl_gemm
    python -m benchmarks.compare.cute_dsl quantize --seed 31 --output benchmarks/results/cute_dsl_quantize

gemm: BF16 products whose m is no power of two. For each tile that CuTe-DSL has, the model's first tactic of
the kernel in CuTe-DSL, of CUTLASS's and of the lean one, without a split of k; the runtime's choice; cuBLAS
(torch.mm). CUTLASS's kernels come from benchmarks/specs/sm90_gemm_beside_cute_dsl.yaml, if its module is in
`generated/`.

quantize: NVFP4, with each type of x and each layout of the scales in turn. All tactics of all kernels that
are built, and a copy that moves as many bytes.

A result is checked against the reference, and each side's bits are compared with those of the first side.
All sides are CUDA graphs of calls on operands in turn, so that L2 is cold; they take turns, and another one
begins each round. The times are medians. Writes OUTPUT.json, and OUTPUT.md, after each problem. --minutes
ends the run in time.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import gemm_problems, in_turn, machine, ratios
from benchmarks.lib.gemm_problems import log_uniform

from tilewright import context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring as gemm_measuring
from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.families.quantize import measuring as quantize_measuring
from tilewright.families.quantize.family import FAMILY as QUANTIZE
from tilewright.families.quantize.problem import Problem as QuantizeProblem
from tilewright.scale_factors import LAYOUTS
from tilewright.tools.benchmarking.groups import with_named
from tilewright.tools.measuring import Operands, checked, make_operands
from tilewright.tools.timing import Replays

MAINLOOPS = ("cute_dsl", "cutlass", "lean")
MOST_FLOP = 3e12  # of a product: longer ones leave time for few others
QUANTIZED = ("bf16", "f16", "e4m3")
MOST_ELEMENTS = 2**29
ROUNDS, LEAST_ROUNDS, SAMPLED_SECONDS = 21, 5, 0.5  # fewer rounds if all samples would take longer
WARM_SECONDS = 0.05  # of all sides in turn, first
PEERS = {"gemm": "cublas", "quantize": "copy"}
FIELDS = {"gemm": ("m", "n", "k"), "quantize": ("x", "layout", "m", "k")}  # of a problem, in the page

Side = Callable[[Any], Any]  # a call on a set of operands


def gemm_problem_draws(seed: int, rows: int) -> Iterator[GemmProblem]:
    """BF16 products of `rows` rows or more, without end."""
    for problem in gemm_problems.drawn("bf16", seed):
        if problem.m >= rows and 2 * problem.m * problem.n * problem.k <= MOST_FLOP:
            yield problem


def quantize_problem_draws(seed: int) -> Iterator[QuantizeProblem]:
    """Matrices of each type of x in turn, and within a type of each layout, without end: m is no power of
    two."""
    draw = random.Random(f"{seed}, cute_dsl")
    for layout, x in itertools.cycle(itertools.product(LAYOUTS, QUANTIZED)):
        m, k = log_uniform(draw, 16, 65536), 64 * log_uniform(draw, 8, 512)
        while m & (m - 1) == 0 or m * k > MOST_ELEMENTS:
            m, k = log_uniform(draw, 16, 65536), 64 * log_uniform(draw, 8, 512)
        yield QuantizeProblem(m, k, format="nvfp4", x=x, layout=layout, global_scale="tensor")


def built(family: str) -> list[KernelRecord]:
    """The kernels of a family that this GPU runs and that are built."""
    current = context.current()
    records = current.registry.route(family, current.device(torch.cuda.current_device()))
    return [record for record in records if current.registry.is_built(record)]


def gemm_tactics(problem: GemmProblem) -> dict[str, Tactic]:
    """The model's first tactic that does not split k, by mainloop and tile, and the runtime's choice."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    family, records = with_named(GEMM), built("gemm")
    tiles = [record.config["tile"] for record in records if record.config["mainloop"] == "cute_dsl"]
    tactics: dict[str, Tactic] = {}
    for mainloop, record in itertools.product(MAINLOOPS, records):
        config = record.config
        plain = config["swap_ab"] is False and config["schedule"] == "cooperative"
        if config["mainloop"] == mainloop and config["tile"] in tiles and plain:
            ranked = family.rank([record], problem, device)
            whole = [candidate.tactic for candidate in ranked if candidate.tactic.splits == 1]
            if whole:
                m, n, k = config["tile"]
                tactics.setdefault(f"{mainloop} {m}x{n}x{k}", whole[0])
    return {**tactics, "choice": current.select(GEMM, problem, device).tactic}


def quantize_tactics(problem: QuantizeProblem) -> dict[str, Tactic]:
    """All tactics of all built kernels, the runtime's choice first."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    choice = current.select(QUANTIZE, problem, device).tactic
    tactics = {"choice": choice}
    family = with_named(QUANTIZE)
    for record in family.fitting(built("quantize"), problem):
        for tactic in family.candidates(record, problem, device):
            grid = "persistent" if tactic.blocks else "whole"
            tactics[f"{record.config['compiler']} {record.config['variant']} {grid}"] = tactic
    return tactics


def results_of(operands: Operands, tactic: Tactic) -> list[torch.Tensor]:
    """Copies of what a call writes, as bytes."""
    operands.poison()
    operands.call(tactic)
    written = [operands.out, vars(operands).get("out_scales")]
    return [tensor.contiguous().view(torch.uint8).clone() for tensor in written if tensor is not None]


def check(operands: Operands, tactics: dict[str, Tactic]) -> dict[str, bool]:
    """Whether each side's bits equal those of the first one. Raises WrongResultError if a result is wrong."""
    first, *_ = tactics.values()
    checked(operands, first)
    expected = results_of(operands, first)
    equal = {}
    for side, tactic in tactics.items():
        actual = results_of(operands, tactic)
        equal[side] = all(map(torch.equal, actual, expected))
        if not equal[side]:
            operands.check()
    return equal


def microseconds(sides: dict[str, Side], sets: Sequence[Operands]) -> dict[str, float]:
    """The median time of a call of each side."""
    graphs = {
        name: Replays([functools.partial(side, operands) for operands in sets])
        for name, side in sides.items()
    }
    until, round_seconds = time.monotonic() + WARM_SECONDS, 0.0
    while time.monotonic() < until or not round_seconds:
        round_seconds = sum(graph.seconds() * graph.calls for graph in graphs.values())
    rounds = max(LEAST_ROUNDS, min(ROUNDS, int(SAMPLED_SECONDS / round_seconds)))
    samples = {name: functools.partial(graph.seconds, ahead=True) for name, graph in graphs.items()}
    medians = in_turn.medians(samples, rounds, rotate=True)
    return {name: round(seconds * 1e6, 3) for name, seconds in medians.items()}


def measure(family: str, problem: Any) -> dict[str, Any]:
    """A problem's row: times, tactics and equality by side. Raises WrongResultError."""
    measuring = gemm_measuring if family == "gemm" else quantize_measuring
    tactics = (gemm_tactics if family == "gemm" else quantize_tactics)(problem)
    peer = measuring.peer(problem)
    assert peer is not None
    sets = make_operands(measuring, problem, context.current().device(torch.cuda.current_device()))
    equal = check(sets[0], tactics)
    for operands in sets:  # the peer's own buffers, ahead of the capture
        peer[1](operands)
    sides: dict[str, Side] = {PEERS[family]: peer[1]}
    sides |= {name: lambda x, t=tactic: x.call(t) for name, tactic in tactics.items()}  # type: ignore[misc]
    times = microseconds(sides, sets)
    fields = {
        name: value
        for name, value in dataclasses.asdict(problem).items()
        if name in ("m", "n", "k", "x", "layout")
    }
    bits = [side for side, same in equal.items() if not same]
    work = 2 * problem.m * problem.n * problem.k if family == "gemm" else problem.bytes
    return {
        **fields,
        "work": work,
        "us": times,
        "tactics": {k: str(v) for k, v in tactics.items()},
        "other bits": bits,
    }


def best_of(row: dict[str, Any], prefix: str) -> float | None:
    """The least time of the sides whose names begin with `prefix`."""
    times = [us for side, us in row["us"].items() if side.startswith(prefix)]
    return min(times, default=None)


def pairs(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The sides that are compared: each in CuTe-DSL, and the best of them, with every other."""
    sides = list(dict.fromkeys(side for row in rows for side in row["us"]))
    ours = [side for side in sides if side.startswith("cute_dsl ")]
    peers = [side for side in sides if not side.startswith("cute_dsl ")]
    words = dict.fromkeys(side.partition(" ")[0] for side in peers)
    alike = [
        (side, peer)
        for side in ours
        for peer in peers
        if peer.partition(" ")[2] and peer.partition(" ")[2] == side.partition(" ")[2]
    ]
    return [*(("cute_dsl", word) for word in words), *alike]


def compared(rows: Sequence[dict[str, Any]]) -> list[list[object]]:
    """For each pair of `pairs`: problems, the other's time over CuTe-DSL's (geometric mean, least, most)."""
    lines: list[list[object]] = []
    for side, peer in pairs(rows):
        speeds = [
            theirs / ours
            for row in rows
            if (ours := best_of(row, side)) is not None and (theirs := best_of(row, peer)) is not None
        ]
        if speeds:
            summary = ratios.summary(speeds)
            lines.append(
                [f"`{side}`", f"`{peer}`", len(speeds), summary["geomean"], summary["least"], max(speeds)]
            )
    return lines


def page(family: str, head: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    rate = "TFLOP/s" if family == "gemm" else "TB/s"
    lines = [
        f"# Kernels of `{family}` in CuTe-DSL beside others",
        "",
        f"`{head['command']}`; {head['date']}, {head['gpu']}, driver {head['driver']}, torch "
        f"{head['torch']}, clocks after {head['clocks']}.",
        "",
        "A ratio is the other side's time over that in CuTe-DSL: more than 1 if CuTe-DSL is faster. A word "
        "without a tile or a variant is the fastest of its sides.",
        "",
        *ratios.table(
            ["in CuTe-DSL", "beside", "problems", "geometric mean", "least", "most"], compared(rows)
        ),
        "",
    ]
    unequal = [side for row in rows for side in row["other bits"]]
    equal = sum(len(row["tactics"]) for row in rows) - len(unequal)
    lines += [
        f"Bits: {equal} results are equal to the first side's of their problem"
        + (
            f"; {len(unequal)} are not (`{'`, `'.join(sorted(set(unequal)))}`)."
            if unequal
            else ", which is all."
        ),
        "",
    ]
    fields = FIELDS[family]
    sides = list(dict.fromkeys(side for row in rows for side in row["us"]))
    table = [
        [
            *(row[name] for name in fields),
            *(row["us"].get(side) for side in sides),
            row["work"] / (best_of(row, "cute_dsl") or float("nan")) * 1e-6,
            row["work"] / row["us"][PEERS[family]] * 1e-6,
        ]
        for row in rows
    ]
    heads = [*fields, *(f"{side}, us" for side in sides), f"cute_dsl, {rate}", f"{PEERS[family]}, {rate}"]
    return "\n".join([*lines, *ratios.table(heads, table)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "family", choices=tuple(PEERS), help="the family whose kernels in CuTe-DSL are measured"
    )
    parser.add_argument("--seed", type=int, required=True, help="of the random problems")
    parser.add_argument("--count", type=int, default=36, help="number of random problems")
    parser.add_argument("--rows", type=int, default=65, help="gemm: rows of a product, at least")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no problem later than this")
    parser.add_argument("--output", type=Path, required=True, help="path without its ending")
    options = parser.parse_args()
    machine.require_gpu()
    begun = time.monotonic()
    draws: Iterator[Any] = (
        gemm_problem_draws(options.seed, options.rows)
        if options.family == "gemm"
        else quantize_problem_draws(options.seed)
    )
    rows: list[dict[str, Any]] = []
    for problem in itertools.islice(draws, options.count):
        if time.monotonic() - begun > 60 * options.minutes:
            print(f"{options.count - len(rows)} problems are left out: the time is over")
            break
        row = measure(options.family, problem)
        rows.append(row)
        print(problem, row["us"], row["other bits"], flush=True)
        torch.cuda.empty_cache()
        head = machine.gpu_run("benchmarks.compare.cute_dsl")
        machine.write_rows(options.output, head, rows)
        machine.write_page(options.output, page(options.family, head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
