"""`packed_fp8_gemm` on a GPU beside `torch.mm` of BF16 and Humming's kernels with FP8 activations.

    python -m benchmarks.compare.packed_fp8_weights --output results/packed_fp8_weights
    python -m benchmarks.compare.packed_fp8_weights --random 40 --output results/packed_fp8_random

For the shapes of layers, or for shapes drawn at random, one run measures these sides: the tactic that is
selected; `torch.mm` of BF16 activations and weights; Humming's layer with its defaults, if it can be
imported, which gets the same FP8 activations with a factor for each row. Each side is a CUDA graph of calls
that take operands in turn, so that L2 is cold. A time is the median of rounds in which the sides take turns,
and a ratio is the peer's time over ours. Each result of ours is checked first. Writes OUTPUT.md after each
problem.

With `--fast-accum` our sums of MXFP4 stay in the tensor core, as those of Humming's MXFP4 kernels do.

A random problem has one of the formats in turn; n and k are log-uniform from 1,024 to 28,672, in multiples of
128, and m from 256 to 8,192.

Humming compiles a kernel for each n and k: `--compile` makes its layers and calls them once, and times
nothing. Several processes with --part 1/N to N/N do that at once.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.lib import beside_peers, packed_products
from benchmarks.lib.beside_peers import Row
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.packed_products import LEAST, MODELS, MOST, SHAPES, Calls, PeerCalls

from tilewright.families.mixed_fp8_gemm import measuring
from tilewright.families.mixed_fp8_gemm.family import FAMILY
from tilewright.families.mixed_fp8_gemm.problem import Problem

ROWS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 16384)
LEAST_ROWS, MOST_ROWS = 256, 8192  # of random problems


def kind_of(weight_format: str, fast_accum: bool) -> dict[str, Any]:
    """The fields of problems of a format; other formats than MXFP4 have no fast sums."""
    return {
        "weight_format": weight_format,
        "a_scale": True,
        "fast_accum": fast_accum and weight_format == "mxfp4",
    }


def listed(
    formats: list[str], shapes: Sequence[tuple[int, int]], rows: list[int], fast_accum: bool
) -> Iterator[Problem]:
    """The problems of layers."""
    for weight_format in formats:
        for n, k in shapes:
            for m in rows:
                yield Problem(m, n, k, **kind_of(weight_format, fast_accum))


def drawn(formats: list[str], count: int, seed: int, fast_accum: bool) -> Iterator[Problem]:
    """Problems drawn at random: the same ones for a seed."""
    draw = random.Random(seed)
    for index in range(count):
        n, k = (log_uniform(draw, LEAST, MOST, 128) for _ in range(2))
        m = log_uniform(draw, LEAST_ROWS, MOST_ROWS)
        yield Problem(m, n, k, **kind_of(formats[index % len(formats)], fast_accum))


def humming_calls(problem: Problem, operands: list[Any]) -> Calls:
    """Calls of Humming's layers of FP8 activations with a factor for each row."""
    return packed_products.humming_calls(
        problem, operands, input_config={"dtype": "float8e4m3"},
        arguments=lambda operand: {"input_scale": operand.a_scale[:, None].contiguous()},
    )  # fmt: skip


PEERS: dict[str, PeerCalls] = {"torch.mm": packed_products.torch_calls, "humming": humming_calls}


def markdown(head: dict[str, str], rows: list[Row]) -> Iterator[str]:
    return packed_products.markdown(
        "Packed 4-bit weights by FP8 activations beside Humming and torch.mm",
        "*Ours* is the tactic that selection chooses; torch.mm multiplies BF16 activations and weights; "
        "Humming's time is without quantising.",
        head,
        rows,
        {
            "TFLOP/s": lambda row: f"{row['problem'].flops / row['seconds']['ours'] * 1e-12:.0f}",
            "tactic": lambda row: f"`{row['tactic'].removeprefix('mixed_fp8_gemm_sm90_e4m3_')}`",
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", nargs="+", default=["int4_g128", "mxfp4"], help="formats of the weights")
    parser.add_argument("--m", nargs="+", type=int, default=list(ROWS), help="rows of activations")
    parser.add_argument("--models", action="store_true", help="all layers of an 8B, a 32B and a 70B model")
    parser.add_argument("--random", type=int, default=0, help="problems drawn at random instead of layers'")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    parser.add_argument("--fast-accum", action="store_true", help="sums of MXFP4 stay in the tensor core")
    beside_peers.add_options(parser)
    options = parser.parse_args()
    problems = listed(options.formats, MODELS if options.models else SHAPES, options.m, options.fast_accum)
    if options.random:
        problems = drawn(options.formats, options.random, options.seed, options.fast_accum)
    beside_peers.run(
        "benchmarks.compare.packed_fp8_weights", options, list(problems),
        compile_peer=lambda problem: packed_products.compile_humming(problem, measuring, humming_calls),
        measure=lambda problem: packed_products.measured(problem, FAMILY, measuring, PEERS),
        markdown=markdown,
    )  # fmt: skip


if __name__ == "__main__":
    main()
