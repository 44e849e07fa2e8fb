"""`packed_fp8_grouped_gemm` on a GPU beside Humming's kernels and torch's grouped product of 16-bit weights.

    python -m benchmarks.compare.packed_fp8_experts --output results/packed_fp8_experts
    python -m benchmarks.compare.packed_fp8_experts --output results/packed_fp8_experts --again TIMES.json

Each token chooses some experts at random. One run measures these sides: up to `--tactics` tactics that the
model puts first, and for MXFP4 as many with `fast_accum`; Humming's grouped kernel with its defaults, if it
can be imported, which gets the same FP8 activations with a factor for each row; `torch._grouped_mm` on
decoded weights. Each side is a CUDA graph of calls that take operands in turn, so that L2 is cold. A time is
the median of rounds in which the sides take turns. The result of the first tactic is checked. Writes
OUTPUT.md and OUTPUT.json after each problem. `--again` reads such an OUTPUT.json and writes the page anew,
with what today's model chooses among the tactics that were timed.

Humming compiles a kernel for each n, k and number of rows: `--compile` calls its layers once and times
nothing. Several processes with --part 1/N to N/N do that at once.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import beside_peers, experts, in_turn, machine, ratios
from benchmarks.lib.experts import ROUNDS, ROUTINGS, Layer, LayerWeights
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.architectures.device import H200
from tilewright.families.mixed_fp8_grouped_gemm import measuring
from tilewright.families.mixed_fp8_grouped_gemm.family import FAMILY
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.selection.weighing import Candidate
from tilewright.tools.measuring import checked
from tilewright.tools.timing import Replays

TOKENS = (16, 256, 1024, 4096, 16384)
LAYERS = (
    Layer("8 square", "int4_g128", 8, 2, 4096, 4096),
    Layer("Mixtral 8x7B, gate and up", "int4_g128", 8, 2, 28672, 4096),
    Layer("gpt-oss-20b, gate and up", "mxfp4", 32, 4, 5760, 2880),
    Layer("8 square", "mxfp4", 8, 2, 4096, 4096),
    Layer("many experts", "mxfp4", 128, 8, 4096, 2048),
    Layer("many experts", "int4_g128", 128, 8, 4096, 2048),
)
CONTIGUOUS = {"gemm_type": "grouped_contiguous"}  # Humming's word for rows in the order of their experts
PEERS = ("humming", "torch")


def sides_of(layer: Layer) -> tuple[str, ...]:
    """Sums that are promoted, and those that stay in the tensor core."""
    return ("ours", "fast") if layer.format == "mxfp4" else ("ours",)


def problem_of(layer: Layer, tokens: int, side: str) -> Problem:
    return Problem(
        tokens * layer.chosen, layer.n, layer.k, layer.experts, weight_format=layer.format, a_scale=True,
        fast_accum=side == "fast",
    )  # fmt: skip


def ranked(problem: Problem) -> Sequence[Candidate]:
    """The tactics of all kernels on an H200, the model's first in front."""
    return FAMILY.rank(context.current().registry.route(FAMILY.name, H200), problem, H200)


def chosen(row: dict[str, Any], side: str) -> str:
    """The tactic that the model puts first, of those that were timed."""
    problem = problem_of(row["layer"], row["tokens"], side)
    tactics = (candidate.tactic for candidate in ranked(problem))
    return next(text for text in map(str, tactics) if text in row["seconds"])


class Sides(LayerWeights):
    """The weights of a layer, for ours and for each peer."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer, measuring, Problem)
        self.wide = experts.decoded(self, measuring)
        self.humming = humming_layer(
            layer.n, layer.k, layer.format, self.wide, num_experts=layer.experts,
            input_config={"dtype": "float8e4m3"},
        )  # fmt: skip

    def activations(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """Rows in the order of their experts, their factors, and the ends of several choices of experts."""
        rows = tokens * self.layer.chosen
        a = torch.randn((rows, self.layer.k), generator=self.generator, device="cuda")
        factors = torch.rand(rows, generator=self.generator, device="cuda") + 0.5
        ends = [experts.routed(tokens, self.layer, self.generator) for _ in range(ROUTINGS)]
        return a.to(torch.float8_e4m3fn), factors, ends

    def humming_calls(
        self, a: torch.Tensor, factors: torch.Tensor, ends: list[torch.Tensor], out: torch.Tensor
    ) -> list[Callable[[], Any]]:
        """A call for each choice of experts."""
        tuning = humming_tuning(self.humming, len(a), **CONTIGUOUS)
        return [
            functools.partial(
                self.humming, a, outputs=out, expert_layout=layout, input_scale=factors[:, None].contiguous(),
                compute_config=CONTIGUOUS, tuning_config=tuning,
            )
            for layout in experts.humming_layouts(ends)
        ]  # fmt: skip

    def compile_peer(self, tokens: int) -> None:
        """Calls Humming's layer once, which compiles its kernel."""
        a, factors, ends = self.activations(tokens)
        out = torch.empty((len(a), self.layer.n), dtype=torch.bfloat16, device="cuda")
        self.humming_calls(a, factors, ends[:1], out)[0]()
        torch.cuda.synchronize()

    def measure(self, tokens: int, most: int) -> dict[str, Any]:
        """Seconds of peers and of up to `most` tactics of a side, by name."""
        layer = self.layer
        a, factors, ends = self.activations(tokens)
        out = torch.empty((len(a), layer.n), dtype=torch.bfloat16, device="cuda")
        sides: dict[str, Replays] = {}
        for side in sides_of(layer):
            problem = problem_of(layer, tokens, side)
            is_built = context.current().registry.is_built
            tactics = [choice.tactic for choice in ranked(problem) if is_built(choice.record)][:most]
            calls = [
                measuring.Operands(
                    problem, stack.op, a=a, weight=stack.weight, scale=stack.scale, n=layer.n,
                    a_scale=factors, weight_format=layer.format, group_ends=groups, out=out,
                    fast_accum=side == "fast", largest_scale=stack.largest_scale,
                )
                for stack, groups in zip(self.sets * ROUTINGS, ends, strict=False)
            ]  # fmt: skip
            checked(calls[0], tactics[0])
            for tactic in tactics:
                sides[str(tactic)] = Replays([functools.partial(call.call, tactic) for call in calls])
        wide, transposed = a.bfloat16(), self.wide.mT
        sides["torch"] = Replays(
            [functools.partial(torch._grouped_mm, wide, transposed, groups) for groups in ends]
        )
        if self.humming is not None:
            sides["humming"] = Replays(self.humming_calls(a, factors, ends, out))
        seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
        read = experts.weight_bytes(self.sets[0], ends)
        return {"layer": layer, "tokens": tokens, "bytes": read, "seconds": seconds}


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Experts with packed 4-bit weights by FP8 activations, beside Humming and torch's grouped product"
    yield ""
    yield (
        f"{beside_peers.preface(head)} *ours* is the tactic that selection chooses, *fast* the one with "
        "`fast_accum`, *fastest* the fastest that was timed; torch multiplies BF16 activations and weights. "
        "Humming's MXFP4 kernels keep sums in the tensor core, as *fast* does. TB/s counts the weights of "
        "the experts that tokens chose."
    )
    yield ""
    yield from summary(rows)
    yield ""
    columns = (
        "experts, chosen", "n x k", "format", "tokens", "side", "us", "fastest", "Humming", "torch",
        "ratio to Humming", "ratio to torch", "TB/s", "TFLOP/s", "tactic",
    )  # fmt: skip
    yield from ratios.table(columns, [cells(row, side) for row in rows for side in sides_of(row["layer"])])


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Means of the ratios by peer, side and format."""
    measured = [
        {
            "peer": peer, "side": side, "format": row["layer"].format,
            "ratio": row["seconds"][peer] / row["seconds"][chosen(row, side)],
        }
        for peer in PEERS
        for side in ("ours", "fast")
        for row in sorted(rows, key=lambda row: row["layer"].format)
        if peer in row["seconds"] and side in sides_of(row["layer"])
    ]  # fmt: skip
    return ratios.summary_table(measured, ("peer", "side", "format"))


def cells(row: dict[str, Any], side: str) -> list[str]:
    """The cells of a side's line."""
    layer, seconds = row["layer"], row["seconds"]
    tactic = chosen(row, side)
    own, flops = seconds[tactic], problem_of(layer, row["tokens"], side).flops
    fast = "_fastacc" in tactic
    fastest = min(
        time for name, time in seconds.items() if name not in PEERS and ("_fastacc" in name) == fast
    )
    return [
        f"{layer.experts}, {layer.chosen}",
        f"{layer.n} x {layer.k}",
        layer.format,
        f"{row['tokens']}",
        side,
        f"{own * 1e6:.1f}",
        f"{fastest * 1e6:.1f}",
        *beside_peers.peer_cells(own, [seconds.get(peer) for peer in PEERS]),
        f"{row['bytes'] / own * 1e-12:.2f}",
        f"{flops / own * 1e-12:.0f}",
        f"`{tactic.removeprefix('mixed_fp8_grouped_gemm_sm90_e4m3_')}`",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tactics", type=int, default=8, help="tactics of a side that are timed, at most")
    parser.add_argument("--again", type=Path, metavar="TIMES", help="write the page of these times anew")
    beside_peers.add_options(parser)
    options = parser.parse_args()
    if options.again:
        head = json.loads(options.again.read_text(encoding="utf-8"))
        rows = [row | {"layer": Layer(*row["layer"])} for row in head.pop("rows")]
        machine.write_page(options.output, "\n".join(markdown(head, rows)) + "\n")
        return
    experts.run(
        "benchmarks.compare.packed_fp8_experts", options, LAYERS, TOKENS, Sides,
        measure=lambda sides, tokens: sides.measure(tokens, options.tactics),
        markdown=markdown, keep_rows=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
