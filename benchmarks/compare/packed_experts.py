"""`packed_grouped_gemm` on a GPU beside torch's grouped product of 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_experts --output results/packed_experts

Each token chooses some experts at random, so that groups have different numbers of rows, and few tokens touch
few experts. One run measures these sides: the tactic that is selected, and others that the model puts near
the first; `torch._grouped_mm` on decoded weights; Humming's grouped kernel with its defaults, if it can be
imported. Each side is a CUDA graph of calls that take stacks and choices of experts in turn. Other memory is
read before each sample, so that L2 is cold. A time is the median of rounds in which the sides take turns. The
result of the selected tactic is checked first. Writes OUTPUT.md after each problem, and OUTPUT.json with the
times of all tactics.

Humming compiles a kernel for each layer and number of tokens: `--compile` makes its layers and calls them
once, and times nothing. Several processes with --part 1/N to N/N do that at once.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from benchmarks.lib import beside_peers, experts, in_turn, ratios
from benchmarks.lib.experts import ROUNDS, SETS, Layer, LayerWeights
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.tactic_times import candidates

from tilewright import context
from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.tools.measuring import checked
from tilewright.tools.timing import Replays

TOKENS = (1, 8, 64, 256, 1024, 4096, 16384)
MOST_TACTICS = ((256, 40), (1024, 14), (16384, 7))  # tokens up to which so many tactics are timed
PEERS = ("humming", "torch")


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


class Sides(LayerWeights):
    """The weights of a layer: several stacks for each side."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer, measuring, Problem)
        wide = experts.decoded(self, measuring)
        self.wide = [wide, *(wide.clone() for _ in range(SETS - 1))]
        self.humming = [
            humming_layer(layer.n, layer.k, layer.format, wide, num_experts=layer.experts)
            for _ in range(SETS)
        ]
        self.flushed = in_turn.Flushed()

    def measure(self, tokens: int) -> dict[str, Any]:
        layer = self.layer
        current = context.current()
        device = current.device(torch.cuda.current_device())
        rows = tokens * layer.chosen
        problem = Problem(rows, layer.n, layer.k, layer.experts, weight_format=layer.format)
        near = [candidate.tactic for candidate in candidates(FAMILY, problem)]
        selected = current.select(FAMILY, problem, device).tactic
        most = next(most for most_tokens, most in MOST_TACTICS if tokens <= most_tokens)
        tactics = [selected, *(tactic for tactic in near if tactic != selected)][:most]
        a = torch.randn((rows, layer.k), generator=self.generator, device="cuda").bfloat16()
        ends = experts.routings(tokens, layer, self.generator)
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
        sides = {name: self.flushed(Replays(turns, warm_up=1)) for name, turns in calls.items()}
        for side in sides.values():
            side()  # loads code
        seconds = in_turn.medians(sides, ROUNDS, rotate=True)
        own = {str(tactic): seconds.pop(str(tactic)) for tactic in tactics}
        return {
            "layer": layer, "tokens": tokens, "bytes": experts.weight_bytes(self.sets[0], ends),
            "flops": problem.flops, "tactic": str(selected), "tactics": own,
            "seconds": seconds | {"ours": own[str(selected)]},
        }  # fmt: skip

    def humming_calls(
        self, a: torch.Tensor, ends: list[torch.Tensor], out: torch.Tensor
    ) -> list[Callable[[], Any]]:
        """Calls of Humming's layer for each choice of experts."""
        compute = {"gemm_type": "grouped_contiguous"}
        tuning = humming_tuning(self.humming[0], len(a), **compute)
        return [
            functools.partial(
                humming, a, outputs=out, expert_layout=layout, compute_config=compute, tuning_config=tuning
            )
            for humming, layout in zip(itertools.cycle(self.humming), experts.humming_layouts(ends))
        ]

    def compile_peer(self, tokens: int) -> None:
        """Calls Humming's layer once, which compiles its kernel."""
        rows = tokens * self.layer.chosen
        a = torch.zeros((rows, self.layer.k), device="cuda", dtype=torch.bfloat16)
        out = torch.empty((rows, self.layer.n), device="cuda", dtype=torch.bfloat16)
        self.humming_calls(a, [experts.routed(tokens, self.layer, self.generator)], out)[0]()
        torch.cuda.synchronize()


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Experts with packed 4-bit weights beside Humming and torch's grouped product"
    yield ""
    yield (
        f"{beside_peers.preface(head)} *Ours* is the tactic that selection chooses, and *fastest* the best "
        "of those that were timed; torch multiplies BF16 weights. TB/s counts the weights of the experts "
        "that tokens chose."
    )
    yield ""
    yield from summary(rows)
    yield ""
    columns = (
        "layer", "format", "n x k", "tokens", "ours", "fastest", "Humming", "torch",
        "ratio to Humming", "ratio to torch", "TB/s", "TFLOP/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def summary(rows: list[dict[str, Any]]) -> list[str]:
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
    return ratios.summary_table(measured, ("peer", "layer"))


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a problem's line."""
    layer, seconds = row["layer"], row["seconds"]
    return [
        layer.model,
        layer.format,
        f"{layer.n} x {layer.k}",
        f"{row['tokens']}",
        f"{seconds['ours'] * 1e6:.1f}",
        f"{min(row['tactics'].values()) * 1e6:.1f}",
        *beside_peers.peer_cells(seconds["ours"], [seconds.get(peer) for peer in PEERS]),
        f"{row['bytes'] / seconds['ours'] * 1e-12:.2f}",
        f"{row['flops'] / seconds['ours'] * 1e-12:.0f}",
        f"`{row['tactic'].removeprefix('mixed_grouped_gemm_sm90_')}`",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside_peers.add_options(parser, seconds=600.0)
    experts.run(
        "benchmarks.compare.packed_experts", parser.parse_args(), LAYERS, TOKENS, Sides,
        measure=Sides.measure, markdown=markdown, keep_rows=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
