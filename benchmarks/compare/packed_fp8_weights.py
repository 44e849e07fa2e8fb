"""`packed_fp8_gemm` on a GPU beside `torch.mm` of BF16 and Humming's kernels with FP8 activations.

    python -m benchmarks.compare.packed_fp8_weights --output results/packed_fp8_weights
    python -m benchmarks.compare.packed_fp8_weights --random 40 --output results/packed_fp8_random

For the shapes of layers, or for shapes drawn at random, in one run: the tactic that is selected; `torch.mm`
of BF16 activations and weights; Humming's layer with its defaults, where it can be imported, which gets the
same FP8 activations with a factor for each row. All are CUDA graphs of calls that take operands in turn, so
that L2 is cold, and medians of rounds in which the sides take turns. A ratio is the peer's time over ours.
Each result of ours is checked first. Writes OUTPUT.md, after each problem.

With `--fast-accum` our sums of MXFP4 stay in the tensor core, as those of Humming's MXFP4 kernels do.

A random problem has one of the formats in turn; n and k are log-uniform from 1,024 to 28,672, in multiples of
128, and m from 256 to 8,192.

Humming compiles a kernel for each n and k: `--compile` makes its layers and calls them once, and times
nothing. Several processes with --part 1/N to N/N do that at once.
"""

from __future__ import annotations

import argparse
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from benchmarks.compare import packed_weights
from benchmarks.lib import beside_peers, in_turn, machine, ratios
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.families.mixed_fp8_gemm import measuring
from tilewright.families.mixed_fp8_gemm.family import FAMILY
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays, rotations

SHAPES = packed_weights.SHAPES
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
        n, k = (log_uniform(draw, packed_weights.LEAST, packed_weights.MOST, 128) for _ in range(2))
        m = log_uniform(draw, LEAST_ROWS, MOST_ROWS)
        yield Problem(m, n, k, **kind_of(formats[index % len(formats)], fast_accum))


def humming_calls(problem: Problem, operands: list[Any]) -> list[Callable[[], Any]]:
    """Calls of Humming's layers with random weights; none if it cannot be imported."""
    calls = []
    for operand in operands:
        wide = torch.randn(problem.n, problem.k, device="cuda", dtype=torch.bfloat16) / 64
        options = {"input_config": {"dtype": "float8e4m3"}}
        layer = humming_layer(problem.n, problem.k, problem.weight_format, wide, **options)
        if layer is None:
            return []
        tuning = humming_tuning(layer, problem.m)
        out, scale = torch.empty_like(operand.out), operand.a_scale[:, None].contiguous()
        calls.append(
            functools.partial(layer, operand.a, outputs=out, input_scale=scale, tuning_config=tuning)
        )
    return calls


def compile_humming(problem: Problem) -> None:
    """Calls Humming's layer once, which compiles its kernel."""
    for call in humming_calls(problem, [measuring.make(problem, torch.Generator("cuda"))]):
        call()
    torch.cuda.synchronize()


def measure(problem: Problem) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)[: packed_weights.MOST_SETS]
    tactic = here.select(FAMILY, problem, device).tactic
    checked(operands[0], tactic)
    sets = rotations(problem.n * problem.k * 2, device.l2_bytes, least=2)
    multiplied = []
    for operand in operands[:sets]:
        a = operand.a.bfloat16()
        weight = torch.randn(problem.n, problem.k, device="cuda", dtype=torch.bfloat16)
        multiplied.append(functools.partial(torch.mm, a, weight.T, out=torch.empty_like(operand.out)))
    sides = {
        "ours": Replays([functools.partial(operand.call, tactic) for operand in operands]),
        "torch.mm": Replays(multiplied),
    }
    try:
        if calls := humming_calls(problem, operands):
            sides["humming"] = Replays(calls)
    except AssertionError:
        print(f"Humming refuses {problem}")
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, packed_weights.ROUNDS)
    return {"problem": problem, "tactic": str(tactic), "seconds": seconds}


def markdown(head: dict[str, str], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Packed 4-bit weights by FP8 activations beside Humming and torch.mm"
    yield ""
    humming = machine.describe("humming-kernels")["humming-kernels"]
    yield (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {humming}, {head['date']}. Microseconds of a launch with a cold L2, sides in turn, "
        "medians. A ratio is the peer's time over ours. *Ours* is the tactic that selection chooses; "
        "torch.mm multiplies BF16 activations and weights; Humming's time is without quantising."
    )
    yield ""
    yield from packed_weights.summary(rows)
    yield ""
    columns = (
        "n x k", "m", "format", "ours", "Humming", "torch.mm", "ratio to Humming", "ratio to torch.mm",
        "TFLOP/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a problem's line."""
    teraflops = row["problem"].flops / row["seconds"]["ours"] * 1e-12
    tactic = row["tactic"].removeprefix("mixed_fp8_gemm_sm90_e4m3_")
    return [*packed_weights.times(row), f"{teraflops:.0f}", f"`{tactic}`"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", nargs="+", default=["int4_g128", "mxfp4"])
    parser.add_argument("--m", nargs="+", type=int, default=list(ROWS), help="rows of activations")
    parser.add_argument("--models", action="store_true", help="all layers of an 8B, a 32B and a 70B model")
    parser.add_argument("--random", type=int, default=0, help="problems drawn at random instead of layers'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast-accum", action="store_true", help="sums of MXFP4 stay in the tensor core")
    beside_peers.add_options(parser)
    options = parser.parse_args()
    shapes = packed_weights.MODELS if options.models else SHAPES
    problems = listed(options.formats, shapes, options.m, options.fast_accum)
    if options.random:
        problems = drawn(options.formats, options.random, options.seed, options.fast_accum)
    beside_peers.run(
        "benchmarks.compare.packed_fp8_weights", options, list(problems),
        compile_peer=compile_humming, measure=measure, markdown=markdown,
    )  # fmt: skip


if __name__ == "__main__":
    main()
