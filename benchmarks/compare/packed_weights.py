"""`packed_gemm` on a GPU beside `torch.mm` on 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_weights --output results/packed_weights
    python -m benchmarks.compare.packed_weights --random 100 --seconds 60 --output results/packed_random
    python -m benchmarks.compare.packed_weights --models --formats int4_g128 --without-humming --output FILE

For the shapes of layers, or for shapes drawn at random, one run measures these sides: the tactic that is
selected; `torch.mm` on weights of 16 bits; Humming's layer with its defaults, if it can be imported. Each
side is a CUDA graph of calls that take operands in turn, so that L2 is cold; of short calls it has 24 or
more. A time is the median of rounds in which the sides take turns, and a ratio is the peer's time over ours.
Each result of ours is checked first. Writes OUTPUT.md after each problem.

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
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.lib import beside_peers, packed_products
from benchmarks.lib.beside_peers import Row
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.packed_products import LEAST, MODELS, MOST, SHAPES, Calls, PeerCalls

from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.timing import Replays

ROWS = (1, 16, 32, 64, 128, 512, 4096)
FEW, MANY = 128, 4096  # rows of random problems, at most
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


def humming_calls(problem: Problem, operands: list[Any]) -> Calls:
    return packed_products.humming_calls(problem, operands, dtype=dtype_of(problem.a))


def torch_calls(problem: Problem, operands: list[Any]) -> Calls:
    return packed_products.torch_calls(problem, operands, dtype=dtype_of(problem.a))


def measure(problem: Problem, peers: dict[str, PeerCalls]) -> Row:
    """Seconds of a problem by side."""

    def graph_of(calls: Calls) -> Replays:
        repeats = -(-LAUNCHES // len(calls)) if problem.flops <= SHORT_FLOPS else 1
        return Replays(calls * repeats)

    return packed_products.measured(problem, FAMILY, measuring, peers, graph_of)


def markdown(head: dict[str, str], rows: list[Row]) -> Iterator[str]:
    return packed_products.markdown(
        "Packed weights beside Humming and torch.mm",
        "*Ours* is the tactic that selection chooses; torch.mm multiplies BF16 weights.",
        head,
        rows,
        {
            "TB/s": lambda row: f"{row['problem'].bytes / row['seconds']['ours'] * 1e-12:.2f}",
            "tactic": lambda row: f"`{row['tactic'].removeprefix('mixed_gemm_sm90_')}`",
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--formats", nargs="+", default=["int4_g128", "mxfp4", "nvfp4"], help="formats of the weights"
    )
    parser.add_argument("--m", nargs="+", type=int, default=list(ROWS), help="rows of activations")
    parser.add_argument("--models", action="store_true", help="all layers of an 8B, a 32B and a 70B model")
    parser.add_argument("--without-humming", action="store_true", help="do not measure Humming")
    parser.add_argument("--without-torch", action="store_true", help="do not measure torch.mm")
    parser.add_argument("--random", type=int, default=0, help="problems drawn at random instead of layers'")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    parser.add_argument(
        "--rows", type=int, nargs=2, default=(1, MANY), metavar=("LEAST", "MOST"), help="leave out other rows"
    )
    beside_peers.add_options(parser)
    options = parser.parse_args()
    least, most = options.rows
    problems = listed(options.formats, MODELS if options.models else SHAPES, options.m)
    if options.random:
        problems = drawn(options.formats, options.random, options.seed)
    kept = [problem for problem in problems if least <= problem.m <= most]
    peers: dict[str, PeerCalls] = {"torch.mm": torch_calls, "humming": humming_calls}
    if options.without_torch:
        del peers["torch.mm"]
    if options.without_humming:
        del peers["humming"]
    beside_peers.run(
        "benchmarks.compare.packed_weights", options, kept,
        compile_peer=lambda problem: packed_products.compile_humming(problem, measuring, humming_calls),
        measure=functools.partial(measure, peers=peers), markdown=markdown,
    )  # fmt: skip


if __name__ == "__main__":
    main()
