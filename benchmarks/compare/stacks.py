"""Stacks of layers, as a model runs them, by our products and by the peer's.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.stacks --random-m 10 --seed 1
        --output benchmarks/results/stacks

Eight layers of each model of shapes/stacks.yaml, each layer with its own weights, run in one CUDA graph per
side: the code of each kernel is cold at its launch, as in a model. FP8 with block scales runs beside DeepGEMM
(`deep_gemm`, imported from the environment; ours is `tilewright.compat.deep_gemm`), BF16 beside cuBLAS
(`torch.mm`). Variant `products` has the products alone; `model` has RMSNorm, SiLU and additions between, and
for FP8 the quantising of activations, by the same kernels on both sides. The graphs are replayed in turn. A
time is the median of replays, in microseconds of a layer; a ratio is the peer's time over ours. Each product
of one layer is compared with the peer's first. Writes OUTPUT.md.

Our side of BF16 stacks of variant `model` runs twice: as the peer does, and as variant `model, fused`,
where one call of `gemm` with activation="silu_mul" computes gate_up and silu(gate) * up. On the other sides
one Triton kernel computes that (lib/silu_mul.py), as serving engines do after a product of cuBLAS.

With --constant, FP8 stacks also run by our products with the promise that weights are constant, in the same
turns: `constant_us`, and `gain`, our time without the promise over it.

With --check, results are compared and nothing is timed: DeepGEMM compiles its kernels then. Several processes
with --part 1/N to N/N compile at once.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine, ratios, stack_layers, stacks
from benchmarks.lib.stack_layers import Layer

from tilewright.errors import TilewrightError
from tilewright.tools.timing import Replays

LAYERS = 8
ROUNDS = 10
WARM_REPLAYS = 3


@functools.cache
def weights(dtype: str, layer: Layer) -> list[stacks.Weights]:
    """The weights of all layers of a model, which stay: making them takes longer than timing a stack."""
    return stacks.random_weights(stacks.READS[dtype], layer, LAYERS)


def check(dtype: str, layer: Layer, m: int, variant: str, *, constant: bool) -> None:
    """Raises ValueError if a product of one layer differs from the peer's."""
    sides = stacks.sides(dtype, constant=constant)
    stack = stacks.Stack(dtype, layer, m, weights(dtype, layer)[:1], variant)
    stack.run(stacks.compared(sides))
    if fuses(dtype, variant):
        stack.run(sides["peer"], stacks.fused_compared(sides["peer"], stacks.fused, stack.activated))
    torch.cuda.synchronize()


def fuses(dtype: str, variant: str) -> bool:
    """Whether our side also runs with the activation in the epilogue of gate_up."""
    return (dtype, variant) == ("bf16", "model")


def microseconds(dtype: str, layer: Layer, m: int, variant: str, *, constant: bool) -> dict[str, float]:
    """The time of a layer, by side."""
    stack = stacks.Stack(dtype, layer, m, weights(dtype, layer), variant)
    sides = stacks.sides(dtype, constant=constant)
    runs = {side: functools.partial(stack.run, multiply) for side, multiply in sides.items()}
    if fuses(dtype, variant):
        runs["fused"] = functools.partial(stack.run, sides["ours"], stacks.fused)
    graphs = {side: Replays([run], warm_up=1) for side, run in runs.items()}
    for graph in [*graphs.values()] * WARM_REPLAYS:
        graph.replay()
    # The GPU waits before each replay: a busy host, which launches late, does not count.
    samples = {side: lambda graph=graph: graph.seconds(ahead=True) for side, graph in graphs.items()}
    times = in_turn.medians(samples, ROUNDS, rotate=True)
    return {side: round(seconds / LAYERS * 1e6, 3) for side, seconds in times.items()}


def rows_of(dtype: str, model: str, m: int, variant: str, times: dict[str, float]) -> list[dict[str, Any]]:
    """The row of a stack; and one of ours with a fused activation, if that ran."""
    rows = [row_of(dtype, model, m, variant, times)]
    if "fused" in times:
        rows.append(row_of(dtype, model, m, f"{variant}, fused", times | {"ours": times["fused"]}))
    return rows


def row_of(dtype: str, model: str, m: int, variant: str, times: dict[str, float]) -> dict[str, Any]:
    return {
        **{"measure": "stack", "dtype": dtype, "variant": variant, "model": model, "m": m},
        **{"peer": stacks.PEERS[dtype], "us": times["ours"], "peer_us": times["peer"]},
        "ratio": round(times["peer"] / times["ours"], 4),
        **of_constants(times),
    }


def of_constants(times: dict[str, float]) -> dict[str, float]:
    """The columns of our products of constant weights, if they ran."""
    us = times.get("constant")
    return {} if us is None else {"constant_us": us, "gain": round(times["ours"] / us, 4)}


def page(head: dict[str, Any], rows: list[dict[str, Any]], failed: list[str]) -> str:
    """Summaries; for each type and variant the ratios by model and m; and the times."""
    keys = ("dtype", "variant")
    lines = [
        "# Stacks of layers, by our products and by the peer's",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. Measure: stack "
        f"({LAYERS} layers in one CUDA graph, sides in turn, medians of {ROUNDS} replays). A ratio is the "
        "peer's time over ours. FP8 runs beside DeepGEMM, BF16 beside cuBLAS. SiLU and the product with the "
        "other half is one kernel after gate_up, except in `model, fused`: there ours is `gemm(..., "
        'activation="silu_mul")`.',
        "",
    ]
    summaries = ratios.summaries(rows, keys)
    if summaries:
        lines += [*ratios.table(list(summaries[0]), [[*each.values()] for each in summaries]), ""]
    for dtype, variant in dict.fromkeys((row["dtype"], row["variant"]) for row in rows):
        of_kind = [row for row in rows if (row["dtype"], row["variant"]) == (dtype, variant)]
        columns = sorted({row["m"] for row in of_kind})
        ratio_of = {(row["model"], row["m"]): row["ratio"] for row in of_kind}
        lines += [f"## {dtype}, {variant}: ratios by m", ""]
        models = dict.fromkeys(row["model"] for row in of_kind)
        cells = [[model, *(ratio_of.get((model, m)) for m in columns)] for model in models]
        lines += [*ratios.table(["model", *map(str, columns)], cells), ""]
    columns_of_times = ["dtype", "variant", "model", "m", "us", "peer_us", "ratio"]
    if any("gain" in row for row in rows):
        columns_of_times += ["constant_us", "gain"]
    lines += ["## Microseconds of a layer", ""]
    lines += ratios.table(columns_of_times, [[row.get(name) for name in columns_of_times] for row in rows])
    lines += ["", "Not measured:", "", *(f"- {line}" for line in failed)] if failed else []
    return "\n".join(lines) + "\n"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dtype",
        choices=stack_layers.DTYPES,
        nargs="+",
        default=list(stack_layers.DTYPES),
        help="types of the operands",
    )
    parser.add_argument("--model", nargs="+", default=[], help="parts of names; default: all models")
    parser.add_argument(
        "--variant",
        choices=stacks.VARIANTS,
        nargs="+",
        default=list(stacks.VARIANTS),
        help="the products alone, or with the other kernels of a model",
    )
    parser.add_argument("--m", type=int, nargs="+", default=list(stack_layers.ROWS), help="rows")
    parser.add_argument("--random-m", type=int, default=0, metavar="COUNT", help="and random numbers of rows")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument(
        "--part",
        type=ratios.part_of,
        default=(1, 1),
        metavar="I/N",
        help="every Nth stack, beginning with the Ith",
    )
    parser.add_argument("--constant", action="store_true", help="FP8 with constant weights, too")
    parser.add_argument("--check", action="store_true", help="compare results, and time nothing")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no stack after")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def shuffled(options: argparse.Namespace, rows_of_a: list[int]) -> list[tuple[str, str, Layer, int, str]]:
    """(dtype, model, layer, m, variant) of all stacks in random order, so that a run that ends early has
    stacks of each kind."""
    cases = stack_layers.cases(options.dtype, options.model, rows_of_a)
    stacks_to_time = [(*case, variant) for case in cases for variant in options.variant]
    random.Random(options.seed).shuffle(stacks_to_time)
    return stacks_to_time


def main() -> int:
    options = parsed()
    machine.require_gpu()
    rows_of_a = sorted({*options.m, *stack_layers.random_rows(options.random_m, options.seed)})
    part, parts = options.part
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    until = time.monotonic() + options.seconds
    for dtype, model, layer, m, variant in shuffled(options, rows_of_a)[part - 1 :: parts]:
        name = f"{dtype} {variant} {model} m={m}"
        if time.monotonic() > until:
            failed.append(f"{name}: the time was over")
            continue
        try:
            check(dtype, layer, m, variant, constant=options.constant)
            if not options.check:
                times = microseconds(dtype, layer, m, variant, constant=options.constant)
                rows += rows_of(dtype, model, m, variant, times)
                print(json.dumps(rows[-1]), flush=True)
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed.append(f"{name}: {str(error).splitlines()[0][:200]}")
            print(failed[-1], flush=True)
        torch.cuda.empty_cache()
    rows.sort(key=lambda row: (row["dtype"], row["model"], row["m"], row["variant"]))
    print(json.dumps(ratios.summaries(rows, ("dtype", "variant")), indent=1))
    if options.output and rows:
        head: dict[str, Any] = machine.gpu_run("benchmarks.compare.stacks")
        machine.write_rows(
            options.output, head | {"measure": "stack", "layers": LAYERS, "not_measured": failed}, rows
        )
        machine.write_page(options.output, page(head, rows, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
