"""A decoder block compiled by torch.compile, with torch's own products and with ours among the choices.

    TILEWRIGHT_JIT=0 python -m benchmarks.compare.compiled_block --output benchmarks/results/compiled_block.md

The block is a Llama's without attention's cache: RMSNorm, the product of queries, keys and values, causal
attention over the rows, its product, RMSNorm, the gated pair, the product back, residual sums; all in BF16.
Inductor compiles it twice with the same settings (`max_autotune_gemm`, products of ATen alone): as it is, and
after `tilewright.adapters.inductor.enable()`, when it times our product beside ATen's for each product.
`ours` is the number of the four products for which it then chose ours.
A layer has its own weights; eight layers are one CUDA graph; both sides are replayed in turn, medians.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.lib import in_turn, machine, ratios
from benchmarks.lib.stack_layers import Layer, models
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

from tilewright.adapters import inductor
from tilewright.tools.timing import Replays

HEAD = 128  # columns of a head
LAYERS = 8
ROUNDS = 15
ROWS = (1, 7, 48, 128, 500, 1900)
OURS = "extern_kernels.tilewright_"  # how compiled code calls ours
TOLERANCE = 2e-2  # norm of the difference of both results, relative


class Weights(NamedTuple):
    """One layer's weights, [n, k], and the weights of its two norms."""

    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    norms: torch.Tensor


def random_weights(layer: Layer) -> Weights:
    products = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * k**-0.5 for n, k in layer]
    return Weights(*products, torch.ones(2, layer.width, device="cuda", dtype=torch.bfloat16))


def block(x: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Query heads are those that `out` reads; keys and values share the rest of what `qkv` writes."""
    functional, (rows, width) = torch.nn.functional, x.shape
    heads = weights.out.shape[1] // HEAD
    shared = weights.qkv.shape[0] // HEAD - heads >> 1
    normed = functional.rms_norm(x, (width,), weights.norms[0])
    qkv = torch.mm(normed, weights.qkv.T).view(rows, heads + 2 * shared, HEAD).transpose(0, 1)
    q, k, v = qkv.split([heads, shared, shared])
    attended = functional.scaled_dot_product_attention(
        q[None], k[None], v[None], is_causal=True, enable_gqa=True
    )
    joined = attended[0].transpose(0, 1).reshape(rows, heads * HEAD)
    x = x + torch.mm(joined, weights.out.T)
    normed = functional.rms_norm(x, (width,), weights.norms[1])
    gate, up = torch.mm(normed, weights.gate_up.T).chunk(2, dim=-1)
    return x + torch.mm(functional.silu(gate) * up, weights.down.T)


def compiled(x: torch.Tensor, weights: Weights) -> tuple[Callable[..., torch.Tensor], int]:
    """The block, compiled for the extents of `x`, and how many of its products are ours."""
    torch._dynamo.reset()
    options: dict[str, Any] = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "ATEN"}
    run = torch.compile(block, dynamic=False, options=options)
    with config.patch(force_disable_caches=True):
        _, sources = run_and_get_code(run, x, weights)
    return run, sum(source.count(OURS) for source in sources)


def stack(run: Callable[..., torch.Tensor], x: torch.Tensor, layers: list[Weights]) -> torch.Tensor:
    return functools.reduce(run, layers, x)


def measure(layer: Layer, rows: int) -> dict[str, Any]:
    """Microseconds of a layer of both sides. Raises ValueError if their results differ."""
    layers = [random_weights(layer) for _ in range(LAYERS)]
    x = torch.randn(rows, layer.width, device="cuda", dtype=torch.bfloat16)
    graphs: dict[str, Replays] = {}
    results: dict[str, torch.Tensor] = {}
    ours = {}
    for side in ("torch", "ours"):
        if side == "ours":
            inductor.enable()
        try:
            run, ours[side] = compiled(x, layers[0])
            results[side] = stack(run, x, layers).double()
            graphs[side] = Replays([functools.partial(stack, run, x, layers)])
        finally:
            inductor.disable()
    difference = float((results["ours"] - results["torch"]).norm() / results["torch"].norm())
    if not difference <= TOLERANCE:
        raise ValueError(f"results differ by {difference:.2e}")
    sides = {side: in_turn.replayed(graph) for side, graph in graphs.items()}
    times = in_turn.medians(sides, ROUNDS, rotate=True)
    us = {side: round(seconds * 1e6 / LAYERS, 2) for side, seconds in times.items()}
    return {
        "m": rows,
        "ours": ours["ours"],
        "us": us["ours"],
        "torch_us": us["torch"],
        "ratio": round(us["torch"] / us["ours"], 4),
    }


def page(rows: list[dict[str, Any]]) -> str:
    head = machine.gpu_run("benchmarks.compare.compiled_block")
    lines = [
        "# A decoder block that torch.compile compiles, with torch's products and with ours",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. "
        f"Microseconds of a layer, of {LAYERS} in a CUDA graph; both sides in turn, medians of {ROUNDS} "
        "replays. `ours` of the block's four products are ours: Inductor timed both and chose. A ratio is "
        "torch's time over ours.",
        "",
        *ratios.table(list(rows[0]), [[*row.values()] for row in rows]),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", nargs="+", default=["llama-3.1-8b"], help="of benchmarks/shapes/stacks.yaml"
    )
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), help="tokens of a batch")
    parser.add_argument("--output", type=Path, help="write the page there")
    options = parser.parse_args()
    machine.require_gpu()
    rows: list[dict[str, Any]] = []
    for model in options.model:
        for count in options.rows:
            rows.append({"model": model, **measure(models("bf16")[model], count)})
            print(rows[-1], flush=True)
            torch.cuda.empty_cache()
            if options.output:  # after each, so that a run that ends early leaves its rows
                machine.write_page(options.output.with_suffix(""), page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
