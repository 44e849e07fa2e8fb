"""`packed_grouped_gemm` on a GPU beside torch's grouped product of 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_experts --output results/packed_experts

Each token chooses some experts at random, so that groups have different numbers of rows, and few tokens touch
few experts. In the same run: the tactic that is selected; `torch._grouped_mm` on decoded weights; Humming's
grouped kernel with its defaults, where it can be imported. All are CUDA graphs of calls that take operands in
turn, so that L2 is cold, medians of rounds in which the sides take turns. Each result of ours is checked
first. Writes OUTPUT.md, after each problem. Humming compiles a kernel for each layer and number of tokens:
`--compile` makes its layers and calls them once, and times nothing. Several processes with --part 1/N to N/N
do that at once.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from benchmarks.lib import beside_peers, in_turn, machine, ratios
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.tools.measuring import checked, copies
from tilewright.tools.timing import Replays

TOKENS = (1, 8, 64, 256, 1024, 4096, 16384)
ROUNDS = 5
SETS = 2  # of operands: the weights of one set exceed L2
ROUTINGS = 4  # choices of experts, in turn
PEERS = ("humming", "torch")
PEER_COLUMNS = ("peer", "layer", "problems", "mean ratio", "worst", "at 1 or more")


class Layer(NamedTuple):
    """A linear layer of a model's experts."""

    model: str
    format: str
    experts: int
    chosen: int  # experts of a token
    n: int
    k: int


LAYERS = (
    Layer("Mixtral 8x7B, gate and up", "int4_g128", 8, 2, 28672, 4096),
    Layer("gpt-oss-20b, gate and up", "mxfp4", 32, 4, 5760, 2880),
    Layer("Qwen3-30B-A3B, down", "nvfp4", 128, 8, 2048, 768),
    Layer("many experts", "mxfp4", 128, 8, 4096, 2048),
)


def routed(tokens: int, layer: Layer, generator: torch.Generator) -> torch.Tensor:
    """The ends of the experts' rows."""
    chance = torch.rand((tokens, layer.experts), generator=generator, device="cuda")
    chosen = chance.topk(layer.chosen, 1).indices.flatten()
    return torch.bincount(chosen, minlength=layer.experts).cumsum(0).int()


class Sides:
    """The weights of a layer, for all numbers of tokens."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.generator = torch.Generator("cuda").manual_seed(0)
        problem = Problem(layer.experts, layer.n, layer.k, layer.experts, weight_format=layer.format)
        self.sets = copies(measuring.make(problem, self.generator), SETS)
        first = self.sets[0]
        groups = range(layer.experts)
        self.wide = torch.stack(
            [measuring.decoded_group(first.weight, first.scale, group, problem) for group in groups]
        )
        linear = humming_layer(layer.n, layer.k, layer.format, self.wide, num_experts=layer.experts)
        self.humming = linear

    def measure(self, tokens: int) -> dict[str, Any]:
        layer = self.layer
        here = context.current()
        device = here.device(torch.cuda.current_device())
        rows = tokens * layer.chosen
        problem = Problem(rows, layer.n, layer.k, layer.experts, weight_format=layer.format)
        tactic = here.select(FAMILY, problem, device).tactic
        a = torch.randn((rows, layer.k), generator=self.generator, device="cuda").bfloat16()
        ends = [routed(tokens, layer, self.generator) for _ in range(ROUTINGS)]
        out = torch.empty((rows, layer.n), dtype=a.dtype, device="cuda")
        weights = [self.sets[index % SETS] for index in range(ROUTINGS)]
        ours = [
            measuring.Operands(
                problem, stack.op, a=a, weight=stack.weight, scale=stack.scale, n=layer.n,
                weight_format=layer.format, group_ends=groups, out=out,
            )
            for stack, groups in zip(weights, ends, strict=True)
        ]  # fmt: skip
        checked(ours[0], tactic)
        transposed = self.wide.mT
        sides = {
            "ours": Replays([functools.partial(operand.call, tactic) for operand in ours]),
            "torch": Replays(
                [functools.partial(torch._grouped_mm, a, transposed, groups) for groups in ends]
            ),
        }
        if self.humming is not None:
            sides["humming"] = Replays(self.humming_calls(a, ends, out))
        seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
        touched = sum(int((groups.diff(prepend=groups.new_zeros(1)) > 0).sum()) for groups in ends) / ROUTINGS
        first = self.sets[0]
        octets = touched * (first.weight[0].numel() + first.scale[0].numel())
        return {
            "layer": layer, "tokens": tokens, "touched": touched, "bytes": octets,
            "flops": problem.flops, "tactic": str(tactic), "seconds": seconds,
        }  # fmt: skip

    def humming_calls(
        self, a: torch.Tensor, ends: list[torch.Tensor], out: torch.Tensor
    ) -> list[Callable[[], Any]]:
        """Calls of Humming's layer for each choice of experts."""
        offsets = [torch.nn.functional.pad(groups, (1, 0)).long() for groups in ends]
        compute = {"gemm_type": "grouped_contiguous"}
        tuning = humming_tuning(self.humming, len(a), **compute)
        return [
            functools.partial(
                self.humming, a, outputs=out, expert_layout=layout, compute_config=compute,
                tuning_config=tuning,
            )
            for layout in offsets
        ]  # fmt: skip

    def compile_humming(self, tokens: int) -> None:
        """Calls Humming's layer once, which compiles its kernel."""
        rows = tokens * self.layer.chosen
        a = torch.zeros((rows, self.layer.k), device="cuda", dtype=torch.bfloat16)
        out = torch.empty((rows, self.layer.n), device="cuda", dtype=torch.bfloat16)
        self.humming_calls(a, [routed(tokens, self.layer, self.generator)], out)[0]()
        torch.cuda.synchronize()


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Experts with packed 4-bit weights beside Humming and torch's grouped product"
    yield ""
    humming = machine.describe("humming-kernels")["humming-kernels"]
    yield (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {humming}, {head['date']}. Microseconds of a launch with a cold L2, sides in turn, "
        "medians. A ratio is the peer's time over ours. *Ours* is the tactic that selection chooses; torch "
        "multiplies BF16 weights. TB/s counts the weights of the experts that tokens chose."
    )
    yield ""
    yield from ratios.table(PEER_COLUMNS, summary(rows))
    yield ""
    columns = (
        "layer", "format", "experts, chosen", "n x k", "tokens", "ours", "Humming", "torch",
        "ratio to Humming", "ratio to torch", "TB/s", "TFLOP/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def summary(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Means of the ratios by peer and layer."""
    measured = [
        {"peer": peer, "layer": row["layer"].model, "ratio": row["seconds"][peer] / row["seconds"]["ours"]}
        for peer in PEERS
        for row in rows
        if peer in row["seconds"]
    ]
    keys = ("peer", "layer", "count", "geomean", "least", "share at 1")
    return [[line[key] for key in keys] for line in ratios.summaries(measured, ("peer", "layer"))]


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a problem's line."""
    layer, seconds = row["layer"], row["seconds"]
    times = [seconds.get(peer) for peer in PEERS]
    return [
        layer.model,
        layer.format,
        f"{layer.experts}, {layer.chosen}",
        f"{layer.n} x {layer.k}",
        f"{row['tokens']}",
        f"{seconds['ours'] * 1e6:.1f}",
        *("" if time is None else f"{time * 1e6:.1f}" for time in times),
        *("" if time is None else f"{time / seconds['ours']:.3f}" for time in times),
        f"{row['bytes'] / seconds['ours'] * 1e-12:.2f}",
        f"{row['flops'] / seconds['ours'] * 1e-12:.0f}",
        f"`{row['tactic'].removeprefix('mixed_grouped_gemm_sm90_')}`",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    beside_peers.add_options(parser, seconds=600.0)
    options = parser.parse_args()
    beside_peers.run(
        "benchmarks.compare.packed_experts", options, list(itertools.product(LAYERS, TOKENS)),
        compile_peer=lambda case: sides_of(case[0]).compile_humming(case[1]),
        measure=lambda case: sides_of(case[0]).measure(case[1]),
        markdown=markdown,
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def sides_of(layer: Layer) -> Sides:
    """The weights of a layer. Those of the last call are kept."""
    return Sides(layer)


if __name__ == "__main__":
    main()
