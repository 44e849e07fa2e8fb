"""Stacks of layers with 4-bit weights, as a model runs them, by `mixed_gemm` and by Humming's kernels.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.packed_stacks --output benchmarks/results/packed_stacks

Eight layers of models of shapes/stacks.yaml, each layer with its own weights, run in one CUDA graph per side,
with RMSNorm, SiLU and additions between the products, by the same kernels on both sides. The graphs are
replayed in turn. A time is the median of replays, in microseconds of a layer; a ratio is Humming's time over
ours. The sides have random weights of their own: benchmarks.compare.packed_weights checks results. Writes
OUTPUT.md. `--compile` runs Humming's side once, which compiles its kernels, and times nothing.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.lib import in_turn, machine, ratios
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.stack_layers import Layer, models
from benchmarks.lib.stacks import Stack, Weights, random_weights

import tilewright
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.tools.timing import Replays

LAYERS, ROUNDS, WARM_REPLAYS = 8, 10, 3
MODELS = ("llama-3.1-8b", "qwen2.5-7b", "llama-3.1-70b on 4 GPUs")
ROWS = (1, 7, 16, 33, 64)
# Humming reads contiguous activations. The attention's, which are columns of a wider tensor, are copied.
SIDES = {
    "ours": lambda a, weight: weight.ours(a.contiguous()),
    "humming": lambda a, weight: weight.humming(
        a.contiguous(), tuning_config=humming_tuning(weight.humming, len(a))
    ),
}


class Packed(NamedTuple):
    """A weight as each side reads it: a function of the activations, and Humming's layer."""

    ours: Any
    humming: Any


def packed(weight_format: str) -> Callable[[torch.Tensor], Packed]:
    """Makes a weight of one format for both sides."""
    generator = torch.Generator("cuda").manual_seed(2)

    def read(wide: torch.Tensor) -> Packed:
        n, k = wide.shape
        weight, scale = measuring.random_weight(Problem(1, n, k, weight_format=weight_format), generator)

        def ours(a: torch.Tensor) -> torch.Tensor:
            return tilewright.packed_gemm(a, weight, scale, n=n, weight_format=weight_format)

        return Packed(ours, humming_layer(n, k, weight_format, wide))

    return read


@functools.lru_cache(maxsize=1)
def packed_layers(weight_format: str, layer: Layer, count: int) -> list[Weights]:
    """The packed weights of a stack. Those of the last call are kept, for other numbers of rows."""
    return random_weights(packed(weight_format), layer, count)


def stack(weight_format: str, layer: Layer, m: int, count: int) -> Stack:
    """Layers of packed weights of one format."""
    return Stack("bf16", layer, m, packed_layers(weight_format, layer, count), "model")


def microseconds(layers: Stack) -> dict[str, float]:
    """The time of a layer, by side."""
    graphs = {
        side: Replays([functools.partial(layers.run, multiply)], warm_up=1)
        for side, multiply in SIDES.items()
    }
    for graph in [*graphs.values()] * WARM_REPLAYS:
        graph.replay()
    samples = {side: lambda graph=graph: graph.seconds(ahead=True) for side, graph in graphs.items()}
    times = in_turn.medians(samples, ROUNDS, rotate=True)
    return {side: round(seconds / LAYERS * 1e6, 2) for side, seconds in times.items()}


def page(head: dict[str, str], rows: list[dict[str, Any]]) -> str:
    """A summary by format, and the times."""
    lines = [
        "# Stacks of layers with 4-bit weights beside Humming",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {machine.describe('humming-kernels')['humming-kernels']}, {head['date']}. Measure: stack "
        f"({LAYERS} layers in one CUDA graph, sides in turn, medians of {ROUNDS} replays), with RMSNorm, "
        "SiLU and additions. Microseconds of a layer; a ratio is Humming's time over ours.",
        "",
    ]
    groups = ratios.summaries(rows, ("format", "m"))
    lines += [*ratios.table(list(groups[0]), [[*each.values()] for each in groups]), ""]
    columns = ("format", "model", "m", "us", "peer_us", "ratio")
    lines += ratios.table(columns, [[row[name] for name in columns] for row in rows])
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--formats", nargs="+", default=["int4_g128", "mxfp4", "nvfp4"])
    parser.add_argument("--m", type=int, nargs="+", default=list(ROWS), help="rows")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no stack after this time")
    parser.add_argument("--compile", action="store_true", help="compile Humming's kernels and time nothing")
    parser.add_argument("--part", type=ratios.part_of, default=(1, 1), help="I/N: every Nth stack")
    options = parser.parse_args()
    until, (part, parts) = time.monotonic() + options.seconds, options.part
    layers = models("bf16")
    cases = [(name, model, m) for name in options.formats for model in MODELS for m in options.m]
    head, rows = machine.gpu_run("benchmarks.compare.packed_stacks"), list[dict[str, Any]]()
    for name, model, m in cases[part - 1 :: parts]:
        if time.monotonic() > until:
            break
        if options.compile:
            stack(name, layers[model], m, 1).run(SIDES["humming"])
            continue
        times = microseconds(stack(name, layers[model], m, LAYERS))
        rows.append({
            "format": name, "model": model, "m": m, "us": times["ours"], "peer_us": times["humming"],
            "ratio": round(times["humming"] / times["ours"], 4),
        })  # fmt: skip
        print(rows[-1], flush=True)
        machine.write_page(options.output, page(head, rows))


if __name__ == "__main__":
    main()
