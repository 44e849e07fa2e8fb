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
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.compare.packed_weights import HUMMING, HummingLayer
from benchmarks.lib import in_turn, machine, ratios
from benchmarks.lib.stack_layers import Layer, Product, models
from benchmarks.lib.stacks import Stack, Weights

import tilewright
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.tools.timing import Replays

LAYERS, ROUNDS, WARM_REPLAYS = 8, 10, 3
MODELS = ("llama-3.1-8b", "qwen2.5-7b", "llama-3.1-70b on 4 GPUs")
ROWS = (1, 7, 16, 33, 64)
# Humming reads contiguous activations. The attention's, which are columns of a wider tensor, are copied.
SIDES = {
    "ours": lambda a, weight: weight.ours(a.contiguous()),
    "humming": lambda a, weight: weight.humming(a.contiguous()),
}


class Packed(NamedTuple):
    """A weight as each side reads it: functions of the activations."""

    ours: Any
    humming: Any


class PackedStack(Stack):
    """Layers of packed weights of one format."""

    def __init__(self, weight_format: str, layer: Layer, m: int, count: int) -> None:
        self._format = weight_format
        super().__init__("bf16", layer, m, count, "model")

    def _weights(self) -> Weights:
        qkv, out, gate_up, down = map(self._packed, self._layer)
        first, second = torch.ones(2, self._layer.width, dtype=torch.bfloat16, device="cuda").unbind()
        return Weights(qkv, out, gate_up, down, (first, second))

    def _packed(self, product: Product) -> Packed:
        problem = Problem(1, product.n, product.k, weight_format=self._format)
        weight, scale = measuring.random_weight(problem, self._generator)

        def ours(a: torch.Tensor) -> torch.Tensor:
            return tilewright.packed_gemm(a, weight, scale, n=product.n, weight_format=self._format)

        format, group = FORMATS[self._format]
        config = HUMMING[format] | {"weight_scale_group_size": group}
        layer = HummingLayer(product.n, product.k, config, torch_dtype=torch.bfloat16).cuda()
        layer.load_from_unquantized(self._random(product.n, product.k) * product.k**-0.5)
        layer.transform()
        return Packed(ours, layer)


def microseconds(stack: PackedStack) -> dict[str, float]:
    """The time of a layer, by side."""
    graphs = {
        side: Replays([lambda multiply=multiply: stack.run(multiply)], warm_up=1)  # type: ignore[misc]
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
            PackedStack(name, layers[model], m, 1).run(SIDES["humming"])
            continue
        times = microseconds(PackedStack(name, layers[model], m, LAYERS))
        rows.append({
            "format": name, "model": model, "m": m, "us": times["ours"], "peer_us": times["humming"],
            "ratio": round(times["humming"] / times["ours"], 4),
        })  # fmt: skip
        print(rows[-1], flush=True)
        machine.write_page(options.output, page(head, rows))


if __name__ == "__main__":
    main()
