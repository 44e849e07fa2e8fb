"""`packed_gemm` on a GPU beside `torch.mm` on 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_weights --output results/packed_weights
    python -m benchmarks.compare.packed_weights --random 100 --seconds 60 --output results/packed_random
    python -m benchmarks.compare.packed_weights --models --formats int4_g128 --without-humming --output FILE

For layers' shapes, or shapes drawn at random, in the same run: the tactic that is selected; `torch.mm` on
weights of 16 bits; Humming's layer with its defaults, where it can be imported. All are CUDA graphs of
calls that take operands in turn, so that L2 is cold, 24 calls or more where they are short; medians of rounds
in which the sides take turns. A ratio is the peer's time over ours. Each result of ours is checked first.
Writes OUTPUT.md, after each problem.

A random problem has one of the formats in turn; n and k are log-uniform from 1,024 to 28,672, in multiples of
128; m is log-uniform, three times of four from 1 to 128, else from 129 to 4,096, and never a power of two but
1. `--rows 1 16` keeps the problems of 1 to 16 rows. Humming compiles a kernel for each n and k: `--compile`
makes its layers and calls them once, and times nothing. Several processes with --part 1/N to N/N do that at
once.
"""

from __future__ import annotations

import argparse
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from benchmarks.lib import beside_peers, in_turn, machine, ratios
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays, rotations

SHAPES = ((8192, 8192), (4096, 14336), (6144, 4096), (28672, 4096))
ROWS = (1, 16, 32, 64, 128, 512, 4096)
# The layers of Llama 3 8B, Qwen2.5 32B and Llama 3 70B: query, key and value; out; gate and up; down.
MODELS = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336),
    (7168, 5120), (5120, 5120), (55296, 5120), (5120, 27648),
    (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672),
)  # fmt: skip
LEAST, MOST = 1024, 28672  # n and k of random problems
FEW, MANY = 128, 4096  # rows of random problems, at most
CLASSES = (16, 32, 64, 128, 512, MANY)  # rows of a line of the summary, at most
ROUNDS = 7
MOST_SETS = 8  # of operands: each has its own weights of 16 bits, and Humming's
# Launches of a graph, at least, of products that take up to 0.1 ms: starting a graph takes some 10 us.
LAUNCHES, SHORT_FLOPS = 24, 5e10


def listed(formats: list[str], shapes: Sequence[tuple[int, int]], rows: Sequence[int]) -> Iterator[Problem]:
    """The problems of layers."""
    for weight_format in formats:
        for n, k in shapes:
            for m in rows:
                yield Problem(m, n, k, weight_format=weight_format)


def drawn(formats: list[str], count: int, seed: int) -> Iterator[Problem]:
    """Problems drawn at random: the same ones for a seed."""
    draw = random.Random(seed)
    for index in range(count):
        n, k = (log_uniform(draw, LEAST, MOST, 128) for _ in range(2))
        least, most = (1, FEW) if draw.random() < 0.75 else (FEW + 1, MANY)
        m = log_uniform(draw, least, most)
        m += m > 1 and m & (m - 1) == 0
        yield Problem(m, n, k, weight_format=formats[index % len(formats)])


def humming_calls(problem: Problem, operands: list[Any]) -> list[Callable[[], Any]]:
    """Calls of Humming's layers with random weights; none if it has no such format."""
    calls = []
    for operand in operands:
        wide = torch.randn(problem.n, problem.k, device="cuda", dtype=dtype_of(problem.a)) / 64
        layer = humming_layer(problem.n, problem.k, problem.weight_format, wide)
        if layer is None:
            return []
        tuning = humming_tuning(layer, problem.m)
        out = torch.empty_like(operand.out)
        calls.append(functools.partial(layer, operand.a, outputs=out, tuning_config=tuning))
    return calls


def torch_calls(problem: Problem, operands: list[Any]) -> list[Callable[[], Any]]:
    """Calls of torch.mm with random weights of the activations' type."""
    dtype = dtype_of(problem.a)
    calls = []
    for operand in operands:
        wide = torch.randn(problem.n, problem.k, device="cuda", dtype=dtype)
        calls.append(functools.partial(torch.mm, operand.a, wide.T, out=torch.empty_like(operand.out)))
    return calls


def compile_humming(problem: Problem) -> None:
    """Calls Humming's layer once, which compiles its kernel."""
    try:
        for call in humming_calls(problem, [measuring.make(problem, torch.Generator("cuda"))]):
            call()
    except AssertionError:
        print(f"Humming refuses {problem}")
    torch.cuda.synchronize()


def launched(problem: Problem, calls: list[Callable[[], Any]]) -> Replays:
    """A graph of the calls, as often as a short product needs."""
    repeats = -(-LAUNCHES // len(calls)) if problem.flops <= SHORT_FLOPS else 1
    return Replays(calls * repeats)


def measure(problem: Problem, with_humming: bool = True, with_torch: bool = True) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)[:MOST_SETS]
    tactic = here.select(FAMILY, problem, device).tactic
    checked(operands[0], tactic)
    sides = {"ours": launched(problem, [functools.partial(operand.call, tactic) for operand in operands])}
    if with_torch:
        sets = rotations(problem.n * problem.k * 2, device.l2_bytes, least=2)
        sides["torch.mm"] = launched(problem, torch_calls(problem, operands[:sets]))
    try:
        if with_humming and (calls := humming_calls(problem, operands)):
            sides["humming"] = launched(problem, calls)
    except AssertionError:
        print(f"Humming refuses {problem}")
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return {"problem": problem, "tactic": str(tactic), "seconds": seconds}


def class_of(m: int) -> str:
    """The line of the summary that a problem of m rows counts for."""
    last = 0
    for most in CLASSES:
        if m <= most:
            return f"{last + 1} to {most}"
        last = most
    return f"{last + 1} on"


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Means of the ratios by peer, format and rows."""
    measured = [
        {
            "peer": peer,
            "format": row["problem"].weight_format,
            "rows": class_of(row["problem"].m),
            "ratio": seconds / row["seconds"]["ours"],
        }
        for row in rows
        for peer, seconds in row["seconds"].items()
        if peer != "ours"
    ]
    together = [row | {"format": "all"} for row in measured]
    whole = [row | {"rows": "all"} for row in together if row["peer"] == "humming"]
    lines = sorted([*whole, *together, *measured], key=_place)
    groups = ratios.summaries(lines, ("peer", "format", "rows"))
    columns = ("peer", "format", "rows", "problems", "mean ratio", "worst", "at 1 or more")
    keys = ("peer", "format", "rows", "count", "geomean", "least", "share at 1")
    yield from ratios.table(columns, [[line[key] for key in keys] for line in groups])


def _place(row: dict[str, Any]) -> tuple[str, bool, str, int]:
    first = row["rows"].split()[0]
    return row["peer"], row["format"] != "all", row["format"], int(first) if first != "all" else 0


def markdown(head: dict[str, str], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Packed weights beside Humming and torch.mm"
    yield ""
    humming = machine.describe("humming-kernels")["humming-kernels"]
    yield (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {humming}, {head['date']}. Microseconds of a launch with a cold L2, sides in turn, "
        "medians. A ratio is the peer's time over ours. *Ours* is the tactic that selection chooses; "
        "torch.mm multiplies BF16 weights."
    )
    yield ""
    yield from summary(rows)
    yield ""
    columns = (
        "n x k", "m", "format", "ours", "Humming", "torch.mm", "ratio to Humming", "ratio to torch.mm",
        "TB/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a problem's line."""
    terabytes = row["problem"].bytes / row["seconds"]["ours"] * 1e-12
    return [*times(row), f"{terabytes:.2f}", f"`{row['tactic'].removeprefix('mixed_gemm_sm90_')}`"]


def times(row: dict[str, Any]) -> list[str]:
    """The cells that say the problem, microseconds, and ratios to the peers."""
    problem, seconds = row["problem"], row["seconds"]
    peers = {peer: seconds.get(peer) for peer in ("humming", "torch.mm")}
    return [
        f"{problem.n} x {problem.k}",
        f"{problem.m}",
        problem.weight_format,
        f"{seconds['ours'] * 1e6:.1f}",
        *("" if time is None else f"{time * 1e6:.1f}" for time in peers.values()),
        *("" if time is None else f"{time / seconds['ours']:.3f}" for time in peers.values()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", nargs="+", default=["int4_g128", "mxfp4", "nvfp4"])
    parser.add_argument("--m", nargs="+", type=int, default=list(ROWS), help="rows of layers' problems")
    parser.add_argument("--models", action="store_true", help="all layers of an 8B, a 32B and a 70B model")
    parser.add_argument("--without-humming", action="store_true")
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--random", type=int, default=0, help="problems drawn at random instead of layers'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rows", type=int, nargs=2, default=(1, MANY), metavar=("LEAST", "MOST"), help="keep these m alone"
    )
    beside_peers.add_options(parser)
    options = parser.parse_args()
    least, most = options.rows
    problems = listed(options.formats, MODELS if options.models else SHAPES, options.m)
    if options.random:
        problems = drawn(options.formats, options.random, options.seed)
    kept = [problem for problem in problems if least <= problem.m <= most]
    beside_peers.run(
        "benchmarks.compare.packed_weights", options, kept,
        compile_peer=compile_humming, markdown=markdown,
        measure=functools.partial(
            measure, with_humming=not options.without_humming, with_torch=not options.without_torch
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
