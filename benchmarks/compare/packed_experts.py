"""`packed_grouped_gemm` on a GPU beside torch's grouped product of 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_experts --output results/packed_experts

Each token chooses some experts at random, so that groups have different numbers of rows, and few tokens touch
few experts. In the same run: the tactic that is selected, and others that the model puts near the first;
`torch._grouped_mm` on decoded weights; Humming's grouped kernel with its defaults, where it can be imported.
All are CUDA graphs of calls that take stacks and choices of experts in turn. Other memory is read before each
sample, so that L2 is cold. Medians of rounds in which the sides take turns. The result of the selected tactic
is checked first. Writes OUTPUT.md, after each problem. Humming compiles a kernel for each layer and number of
tokens: `--compile` makes its layers and calls them once, and times nothing. Several processes with --part 1/N
to N/N do that at once.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from benchmarks.fit.mixed_times import worth_timing
from benchmarks.lib import beside_peers, in_turn, machine, ratios
from benchmarks.lib.humming import humming_layer, humming_tuning

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
MOST_TACTICS = ((256, 40), (1024, 14), (16384, 7))  # that are timed, for up to so many tokens
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
    Layer("8 experts, top 2", "int4_g128", 8, 2, 4096, 7168),
    Layer("8 experts, top 2", "nvfp4", 8, 2, 4096, 7168),
    Layer("8 experts, top 8", "mxfp4", 8, 8, 4096, 4096),
    Layer("32 experts, top 2", "mxfp4", 32, 2, 5760, 2880),
    Layer("32 experts, top 8", "int4_g128", 32, 8, 4096, 4096),
    Layer("32 experts, top 8", "nvfp4", 32, 8, 4096, 4096),
    Layer("128 experts, top 2", "mxfp4", 128, 2, 1536, 2048),
    Layer("128 experts, top 8", "int4_g128", 128, 8, 1536, 2048),
    Layer("128 experts, top 8", "nvfp4", 128, 8, 1536, 2048),
)


def routed(tokens: int, layer: Layer, generator: torch.Generator) -> torch.Tensor:
    """The ends of the experts' rows."""
    chance = torch.rand((tokens, layer.experts), generator=generator, device="cuda")
    chosen = chance.topk(layer.chosen, 1).indices.flatten()
    return torch.bincount(chosen, minlength=layer.experts).cumsum(0).int()


def routings(tokens: int, layer: Layer, generator: torch.Generator) -> list[torch.Tensor]:
    """The ends of the experts' rows for several choices. One token chooses other experts each time, if there
    are enough, so that none is in L2."""
    if tokens == 1 and layer.chosen * ROUTINGS <= layer.experts:
        order = torch.randperm(layer.experts, generator=generator, device="cuda")
        chosen = order[: layer.chosen * ROUTINGS].split(layer.chosen)
        return [torch.bincount(each, minlength=layer.experts).cumsum(0).int() for each in chosen]
    return [routed(tokens, layer, generator) for _ in range(ROUTINGS)]


class Sides:
    """The weights of a layer, for all numbers of tokens: several stacks for each side."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.generator = torch.Generator("cuda").manual_seed(0)
        problem = Problem(layer.experts, layer.n, layer.k, layer.experts, weight_format=layer.format)
        self.sets = copies(measuring.make(problem, self.generator), SETS)
        first = self.sets[0]
        groups = range(layer.experts)
        wide = torch.stack(
            [measuring.decoded_group(first.weight, first.scale, group, problem) for group in groups]
        )
        self.wide = [wide, *(wide.clone() for _ in range(SETS - 1))]
        self.humming = [humming_of(layer, wide) for _ in range(SETS)]
        self.flushed = in_turn.Flushed()

    def measure(self, tokens: int) -> dict[str, Any]:
        layer = self.layer
        here = context.current()
        device, registry = here.device(torch.cuda.current_device()), here.registry
        rows = tokens * layer.chosen
        problem = Problem(rows, layer.n, layer.k, layer.experts, weight_format=layer.format)
        built = [record for record in registry.route(FAMILY.name, device) if registry.is_built(record)]
        near = [candidate.tactic for candidate in worth_timing(FAMILY.rank(built, problem, device))]
        selected = here.select(FAMILY, problem, device).tactic
        most = next(most for up_to, most in MOST_TACTICS if tokens <= up_to)
        tactics = [selected, *(tactic for tactic in near if tactic != selected)][:most]
        a = torch.randn((rows, layer.k), generator=self.generator, device="cuda").bfloat16()
        ends = routings(tokens, layer, self.generator)
        out = torch.empty((rows, layer.n), dtype=a.dtype, device="cuda")
        ours = [
            measuring.Operands(
                problem, stack.op, a=a, weight=stack.weight, scale=stack.scale, n=layer.n,
                weight_format=layer.format, group_ends=groups, out=out,
            )
            for stack, groups in zip(itertools.cycle(self.sets), ends)
        ]  # fmt: skip
        checked(ours[0], selected)
        calls: dict[str, list[Callable[[], Any]]] = {
            str(tactic): [functools.partial(operand.call, tactic) for operand in ours] for tactic in tactics
        }
        calls["torch"] = [
            functools.partial(torch._grouped_mm, a, wide.mT, groups)
            for wide, groups in zip(itertools.cycle(self.wide), ends)
        ]
        if self.humming[0] is not None:
            calls["humming"] = self.humming_calls(a, ends, out)
        sides = {name: self.flushed(Replays(each, warm_up=1)) for name, each in calls.items()}
        for side in sides.values():
            side()  # loads code
        seconds = in_turn.medians(sides, ROUNDS, rotate=True)
        own = {str(tactic): seconds.pop(str(tactic)) for tactic in tactics}
        touched = sum(int((groups.diff(prepend=groups.new_zeros(1)) > 0).sum()) for groups in ends) / ROUTINGS
        first = self.sets[0]
        octets = touched * (first.weight[0].numel() + first.scale[0].numel())
        return {
            "layer": layer, "tokens": tokens, "touched": touched, "bytes": octets, "flops": problem.flops,
            "tactic": str(selected), "fastest": min(own.values()),
            "seconds": seconds | {"ours": own[str(selected)]},
        }  # fmt: skip

    def humming_calls(
        self, a: torch.Tensor, ends: list[torch.Tensor], out: torch.Tensor
    ) -> list[Callable[[], Any]]:
        """Calls of Humming's layer for each choice of experts."""
        offsets = [torch.nn.functional.pad(groups, (1, 0)).long() for groups in ends]
        compute = {"gemm_type": "grouped_contiguous"}
        tuning = humming_tuning(self.humming[0], len(a), **compute)
        return [
            functools.partial(
                humming, a, outputs=out, expert_layout=layout, compute_config=compute, tuning_config=tuning
            )
            for humming, layout in zip(itertools.cycle(self.humming), offsets)
        ]

    def compile_humming(self, tokens: int) -> None:
        """Calls Humming's layer once, which compiles its kernel."""
        rows = tokens * self.layer.chosen
        a = torch.zeros((rows, self.layer.k), device="cuda", dtype=torch.bfloat16)
        out = torch.empty((rows, self.layer.n), device="cuda", dtype=torch.bfloat16)
        self.humming_calls(a, [routed(tokens, self.layer, self.generator)], out)[0]()
        torch.cuda.synchronize()


def humming_of(layer: Layer, wide: torch.Tensor) -> Any:
    return humming_layer(layer.n, layer.k, layer.format, wide, num_experts=layer.experts)


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Experts with packed 4-bit weights beside Humming and torch's grouped product"
    yield ""
    humming = machine.describe("humming-kernels")["humming-kernels"]
    yield (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {humming}, {head['date']}. Microseconds of a launch with a cold L2, sides in turn, "
        "medians. A ratio is the peer's time over ours. *Ours* is the tactic that selection chooses, and "
        "*fastest* the best of those that were timed; torch multiplies BF16 weights. TB/s counts the weights "
        "of the experts that tokens chose."
    )
    yield ""
    yield from ratios.table(PEER_COLUMNS, summary(rows))
    yield ""
    columns = (
        "layer", "format", "n x k", "tokens", "ours", "fastest", "Humming", "torch",
        "ratio to Humming", "ratio to torch", "TB/s", "TFLOP/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def summary(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Means of the ratios by peer and layer."""
    measured = [
        {
            "peer": peer,
            "layer": f"{row['layer'].model}, {row['layer'].format}",
            "ratio": row["seconds"][peer] / row["seconds"]["ours"],
        }
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
        f"{layer.n} x {layer.k}",
        f"{row['tokens']}",
        f"{seconds['ours'] * 1e6:.1f}",
        f"{row['fastest'] * 1e6:.1f}",
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
