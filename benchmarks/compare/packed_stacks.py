"""Stacks of layers with 4-bit weights, as a model runs them, by `mixed_gemm` and by Humming's kernels.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.packed_stacks --output benchmarks/results/packed_stacks

Eight layers of models of shapes/stacks.yaml, each layer with its own weights, run in one CUDA graph per side,
with RMSNorm, SiLU and additions between the products, by the same kernels on both sides. SiLU of gate times
up is one kernel (lib/silu_mul.py) after Humming's product, and after ours of the side `unfused`; our other
side computes it in the product (`activation="silu_mul"`). The graphs are replayed in turn. A time is the
median of replays, in microseconds of a layer; a ratio is Humming's time over ours. The sides have random
weights of their own: benchmarks.compare.packed_weights checks results. `--compile` runs Humming's side once,
which compiles its kernels, and times nothing.

Writes OUTPUT.md, and of each stack with the other kernels of a serving engine OUTPUT_engines.md: an addition
to the residual stream and the RMSNorm after it are one kernel (lib/fused_norm.py) on all sides, and nothing
copies what attention would have written.
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
from benchmarks.lib.beside_peers import humming_release
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.stack_layers import Layer, models
from benchmarks.lib.stacks import Multiply, Stack, Weights, random_weights

import tilewright
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.tools.timing import Replays

LAYERS, ROUNDS, WARM_REPLAYS = 8, 10, 3
AS_ENGINES = (
    "On all sides one kernel adds to the residual stream and computes the RMSNorm after it, and nothing "
    "copies what attention would have written, as in a serving engine."
)
MODELS = ("llama-3.1-8b", "qwen2.5-7b", "llama-3.1-70b on 4 GPUs")
ROWS = (1, 7, 16, 33, 64)


class Packed(NamedTuple):
    """A weight as each side reads it: two functions of the activations, of which `gated` computes
    silu(gate) * up, and Humming's layer."""

    ours: Any
    gated: Any
    humming: Any


class Side(NamedTuple):
    """A side's products, and if it has one, that which computes silu(gate) * up."""

    multiply: Multiply
    gated: Multiply | None = None


# Humming reads contiguous activations. The attention's, columns of a wider tensor, are copied on all sides.
def _ours(a: torch.Tensor, weight: Packed) -> torch.Tensor:
    product: torch.Tensor = weight.ours(a.contiguous())
    return product


def _humming(a: torch.Tensor, weight: Packed) -> torch.Tensor:
    tuning = humming_tuning(weight.humming, len(a))
    product: torch.Tensor = weight.humming(a.contiguous(), tuning_config=tuning)
    return product


SIDES = {
    "ours": Side(_ours, lambda a, weight: weight.gated(a)),
    "unfused": Side(_ours),
    "humming": Side(_humming),
}


def packed(weight_format: str) -> Callable[[torch.Tensor], Packed]:
    """Makes a weight of one format for both sides."""
    generator = torch.Generator("cuda").manual_seed(2)

    def read(wide: torch.Tensor) -> Packed:
        n, k = wide.shape
        weight, scale = measuring.random_weight(Problem(1, n, k, weight_format=weight_format), generator)

        def ours(a: torch.Tensor, activation: str = "none") -> torch.Tensor:
            return tilewright.packed_gemm(
                a, weight, scale, n=n, weight_format=weight_format, activation=activation
            )

        gated = functools.partial(ours, activation="silu_mul")
        return Packed(ours, gated, humming_layer(n, k, weight_format, wide))

    return read


@functools.lru_cache(maxsize=1)
def packed_layers(weight_format: str, layer: Layer, count: int) -> list[Weights]:
    """The packed weights of a stack. Those of the last call are kept, for other numbers of rows."""
    return random_weights(packed(weight_format), layer, count)


def stack(weight_format: str, layer: Layer, m: int, count: int) -> Stack:
    """Layers of packed weights of one format."""
    return Stack("bf16", layer, m, packed_layers(weight_format, layer, count), "model")


def microseconds(layers: Stack, *, as_engines: bool) -> dict[str, float]:
    """The time of a layer, by side."""
    run = layers.run_as_engines_do if as_engines else layers.run
    graphs = {name: Replays([functools.partial(run, *side)], warm_up=1) for name, side in SIDES.items()}
    for graph in [*graphs.values()] * WARM_REPLAYS:
        graph.replay()
    samples = {side: lambda graph=graph: graph.seconds(ahead=True) for side, graph in graphs.items()}
    times = in_turn.medians(samples, ROUNDS, rotate=True)
    return {side: round(seconds / LAYERS * 1e6, 2) for side, seconds in times.items()}


def row_of(weight_format: str, model: str, m: int, times: dict[str, float]) -> dict[str, Any]:
    """The times of a stack's layer, and Humming's over ours."""
    peer = times["humming"]
    return {
        "format": weight_format, "model": model, "m": m, "us": times["ours"], "peer_us": peer,
        "ratio": round(peer / times["ours"], 4), "unfused_us": times["unfused"],
        "unfused_ratio": round(peer / times["unfused"], 4),
    }  # fmt: skip


def page(head: dict[str, str], rows: list[dict[str, Any]], *, as_engines: bool) -> str:
    """A summary by format, and the times."""
    between = AS_ENGINES if as_engines else "Other kernels are torch's on all sides."
    lines = [
        f"# Stacks of layers with 4-bit weights beside Humming{', as serving engines run them' * as_engines}",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {humming_release()}, {head['date']}. Measure: stack "
        f"({LAYERS} layers in one CUDA graph, sides in turn, medians of {ROUNDS} replays), with RMSNorm, "
        "SiLU and additions. Our product of gate and up computes silu(gate) * up itself "
        '(`activation="silu_mul"`). After Humming\'s, and after ours of the side *unfused*, one Triton '
        f"kernel does. {between} Microseconds of a layer; a ratio is Humming's time over ours.",
        "",
    ]
    groups = ratios.summaries(rows, ("format", "m"))
    lines += [*ratios.table(list(groups[0]), [[*each.values()] for each in groups]), ""]
    columns = ("format", "model", "m", "us", "peer_us", "ratio", "unfused_us", "unfused_ratio")
    lines += ratios.table(columns, [[row[name] for name in columns] for row in rows])
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="path of the pages, without extension")
    parser.add_argument(
        "--formats", nargs="+", default=["int4_g128", "mxfp4", "nvfp4"], help="formats of the weights"
    )
    parser.add_argument("--m", type=int, nargs="+", default=list(ROWS), help="rows")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no stack after this time")
    parser.add_argument("--compile", action="store_true", help="compile Humming's kernels and time nothing")
    parser.add_argument("--part", type=ratios.part_of, default=(1, 1), help="I/N: every Nth stack")
    options = parser.parse_args()
    machine.require_gpu()
    until, (part, parts) = time.monotonic() + options.seconds, options.part
    layers = models("bf16")
    cases = [(name, model, m) for name in options.formats for model in MODELS for m in options.m]
    head = machine.gpu_run("benchmarks.compare.packed_stacks")
    rows: dict[bool, list[dict[str, Any]]] = {False: [], True: []}  # by whether the stacks run as engines do
    for name, model, m in cases[part - 1 :: parts]:
        if time.monotonic() > until:
            break
        if options.compile:
            stack(name, layers[model], m, 1).run(*SIDES["humming"])
            continue
        layers_of_case = stack(name, layers[model], m, LAYERS)
        for as_engines, of_kind in rows.items():
            times = microseconds(layers_of_case, as_engines=as_engines)
            of_kind.append(row_of(name, model, m, times))
            print("engines" if as_engines else "model", of_kind[-1], flush=True)
            output = options.output.with_name(options.output.stem + "_engines" * as_engines)
            machine.write_page(output, page(head, of_kind, as_engines=as_engines))


if __name__ == "__main__":
    main()
