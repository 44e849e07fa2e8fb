"""Gate and up of experts with silu(gate) * up in the product, beside the product and a kernel behind it.

    python -m benchmarks.compare.gated_experts --output results/gated_experts

Three sides, in turn: `fused` is `packed_grouped_gemm(activation="silu_mul")`; `unfused` is the same product
without it, and one Triton kernel behind it that computes silu(gate) * up (lib/silu_mul.py); `product` is the
product alone. Each has the tactic that selection chooses. All are CUDA graphs of calls that take operands in
turn, so that L2 is cold; medians of rounds. Each result is checked first. Humming 0.1 has no product that is
fused with silu(gate) * up. Writes OUTPUT.md, after each problem.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from benchmarks.lib import beside_peers, experts, in_turn, ratios
from benchmarks.lib.experts import ROUNDS, ROUTINGS, Layer, LayerWeights
from benchmarks.lib.in_turn import replayed

import tilewright
from tilewright import context
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.tools.measuring import checked
from tilewright.tools.timing import Replays

TOKENS = (1, 3, 17, 60, 250, 1000, 4100, 16384)
LAYERS = (
    Layer("Mixtral 8x7B", "int4_g128", 8, 2, 28672, 4096),
    Layer("gpt-oss-20b", "mxfp4", 32, 4, 5760, 2880),
    Layer("Qwen3-30B-A3B", "int4_g128", 128, 8, 1536, 2048),
    Layer("Kimi-K2 / 8", "int4_g32", 48, 8, 4096, 7168),
    Layer("DeepSeek-V3 / 8", "nvfp4", 32, 8, 4096, 7168),
)


class Sides(LayerWeights):
    """The weights of a layer, which all sides multiply."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer, measuring, Problem)

    def calls(self, problem: Problem, a: torch.Tensor, ends: list[torch.Tensor]) -> list[Any]:
        """Operands of calls with each choice of experts."""
        out = torch.empty((problem.m, problem.d_columns), dtype=a.dtype, device="cuda")
        return [
            measuring.Operands(
                problem, stack.op, a=a, weight=stack.weight, scale=stack.scale, n=problem.n,
                weight_format=problem.weight_format, group_ends=groups, out=out,
                activation=problem.activation,
            )
            for stack, groups in zip(itertools.cycle(self.sets), ends, strict=False)
        ]  # fmt: skip

    def measure(self, tokens: int) -> dict[str, Any]:
        from benchmarks.lib.silu_mul import silu_mul  # noqa: PLC0415 (it needs Triton)

        layer, here = self.layer, context.current()
        device = here.device(torch.cuda.current_device())
        rows = tokens * layer.chosen
        plain = Problem(rows, layer.n, layer.k, layer.experts, weight_format=layer.format)
        gated = replace(plain, activation="silu_mul")
        a = torch.randn((rows, layer.k), generator=self.generator, device="cuda").bfloat16()
        ends = [experts.routed(tokens, layer, self.generator) for _ in range(ROUTINGS)]
        tactics = {problem: here.select(FAMILY, problem, device).tactic for problem in (plain, gated)}
        calls = {problem: self.calls(problem, a, ends) for problem in (plain, gated)}
        for problem, tactic in tactics.items():
            checked(calls[problem][0], tactic)

        def unfused(operands: Any, tactic: Tactic) -> None:
            operands.call(tactic)
            silu_mul(operands.out)

        graphs = {
            "fused": [functools.partial(x.call, tactics[gated]) for x in calls[gated]],
            "unfused": [functools.partial(unfused, x, tactics[plain]) for x in calls[plain]],
            "product": [functools.partial(x.call, tactics[plain]) for x in calls[plain]],
        }
        samples = {name: replayed(Replays(side)) for name, side in graphs.items()}
        seconds = in_turn.medians(samples, ROUNDS, rotate=True)
        return {"layer": layer, "tokens": tokens, "seconds": seconds, "tactic": str(tactics[gated])}


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Experts' gate and up with silu(gate) * up"
    yield ""
    yield (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"tilewright {tilewright.__version__}, {head['date']}. Microseconds with a cold L2, sides in turn, "
        'medians. *Fused* is `packed_grouped_gemm(activation="silu_mul")`; *unfused* the product and one '
        "Triton kernel behind it; *product* the product alone."
    )
    yield ""
    summaries = [
        [name, *ratios.summary([row["seconds"][name] / row["seconds"]["fused"] for row in rows]).values()]
        for name in ("unfused", "product")
    ]
    yield from ratios.table(["time over fused", *ratios.summary([1.0])], summaries)
    yield ""
    columns = ("layer", "format", "experts, chosen", "n x k", "tokens", "fused", "unfused", "product",
               "unfused over fused", "tactic")  # fmt: skip
    yield from ratios.table(columns, [cells(row) for row in rows])


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a problem's line."""
    layer, seconds = row["layer"], row["seconds"]
    return [
        layer.model, layer.format, f"{layer.experts}, {layer.chosen}", f"{layer.n} x {layer.k}",
        f"{row['tokens']}", *(f"{seconds[side] * 1e6:.1f}" for side in ("fused", "unfused", "product")),
        f"{seconds['unfused'] / seconds['fused']:.3f}",
        f"`{row['tactic'].removeprefix('mixed_grouped_gemm_sm90_')}`",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside_peers.add_options(parser, seconds=600.0)
    experts.run(
        "benchmarks.compare.gated_experts", parser.parse_args(), LAYERS, TOKENS, Sides,
        measure=Sides.measure, markdown=markdown,
    )  # fmt: skip


if __name__ == "__main__":
    main()
