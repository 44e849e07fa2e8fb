"""Products by a merged gate_up weight with silu(gate) * up, fused and in two kernels, beside cuBLAS.

    TILEWRIGHT_TUNED= TILEWRIGHT_JIT=0 python -m benchmarks.compare.gated_products --random 60
        --output benchmarks/results/gated_products

Four sides, in turn: `fused` is gemm(activation="silu_mul"); `unfused` is `gemm`, and `peer` `torch.mm`, each
with one Triton kernel behind it that computes silu(gate) * up (lib/silu_mul.py); `product` is `gemm` alone.
Problems are the gate_up products of shapes/stacks.yaml with m from ROWS, and random ones. Each launch comes
behind an RMSNorm of its rows, whose time is subtracted, and weights are not in L2. A time is the median of
replays of a CUDA graph, in microseconds; a ratio is the peer's time over the fused one's. Results are
compared with the peer's first. Writes OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine, ratios, stack_layers
from benchmarks.lib.gemm_problems import log_uniform
from benchmarks.lib.stacks import check_close

import tilewright
from tilewright.errors import TilewrightError
from tilewright.tools.timing import Replays, rotations

ROWS = (1, 7, 48, 128, 500, 1043, 1900, 2841)
CALLS = 12  # of a graph
ROUNDS = 9
SIDES = ("peer", "unfused", "fused", "product")
Side = Callable[[torch.Tensor, torch.Tensor], Any]


def problems(count: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of the models' layers, and of `count` random ones, whose m is no power of two."""
    for layer in stack_layers.models("bf16").values():
        yield from ((m, *layer.gate_up) for m in ROWS)
    chance = random.Random(seed)
    for _ in range(count):
        m = log_uniform(chance, 1, 4096)
        n, k = 32 * log_uniform(chance, 32, 1280), 64 * log_uniform(chance, 16, 128)
        yield m + (m & (m - 1) == 0 and m > 2), n, k


def sides() -> dict[str, Side]:
    """The functions of the sides, by name. Each takes rows [m, k] and a weight [n, k]."""
    from benchmarks.lib.silu_mul import silu_mul  # noqa: PLC0415 (it needs Triton)

    return {
        "peer": lambda x, w: silu_mul(torch.mm(x, w.mT)),
        "unfused": lambda x, w: silu_mul(tilewright.gemm(x, w.mT)),
        "fused": lambda x, w: tilewright.gemm(x, w.mT, activation="silu_mul"),
        "product": lambda x, w: tilewright.gemm(x, w.mT),
    }


def microseconds(m: int, n: int, k: int) -> dict[str, float]:
    """The time of each side. Raises ValueError if a result differs from the peer's by more than rounding."""
    generator = torch.Generator("cuda").manual_seed(m + n + k)

    def matrix(rows: int) -> torch.Tensor:
        return torch.randn(rows, k, generator=generator, device="cuda", dtype=torch.bfloat16)

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    weights = [matrix(n) * k**-0.5 for _ in range(rotations(2 * n * k, l2_bytes, least=2, most=CALLS))]
    rows, before, multiply = [matrix(m) for _ in range(2)], matrix(m), sides()
    expected = multiply["peer"](rows[0], weights[0])
    for side in ("unfused", "fused"):
        check_close(multiply[side](rows[0], weights[0]), expected)

    def call(number: int, side: Side | None) -> Callable[[], object]:
        x, weight = rows[number % len(rows)], weights[number % len(weights)]

        def run() -> object:
            torch.nn.functional.rms_norm(before, (k,))
            return side and side(x, weight)

        return run

    graphs = {
        name: Replays([call(number, side) for number in range(CALLS)], warm_up=1)
        for name, side in {**multiply, "": None}.items()
    }
    samples = {name: in_turn.replayed(graph) for name, graph in graphs.items()}
    times = in_turn.medians(samples, ROUNDS, rotate=True)
    return {side: ratios.net_microseconds(times[side], times[""]) for side in SIDES}


def row_of(m: int, n: int, k: int, times: dict[str, float]) -> dict[str, Any]:
    """A problem's row: times, and ratios of the peer's time over those of the fused and the unfused side."""
    fused = times["fused"]
    return {
        **{"measure": "launch behind a norm", "m": m, "n": n, "k": k},
        **{f"{side}_us": times[side] for side in SIDES},
        "ratio": round(times["peer"] / fused, 4),
        "unfused_ratio": round(times["peer"] / times["unfused"], 4),
        "product_ratio": round(times["product"] / fused, 4),
    }


def page(head: dict[str, Any], rows: list[dict[str, Any]], failed: list[str]) -> str:
    """Summaries of the three ratios, and the rows."""
    lines = [
        "# Products with silu(gate) * up",
        "",
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}. Times in "
        "microseconds, each of a launch behind an RMSNorm, with weights that are not in L2. `fused`: "
        '`gemm(activation="silu_mul")`. `unfused` and `peer` (cuBLAS): a product and one Triton kernel. '
        "`product`: `gemm` without SiLU.",
        "",
    ]
    names = {
        "ratio": "peer over fused",
        "unfused_ratio": "peer over unfused",
        "product_ratio": "product over fused",
    }
    summaries = [
        [text, *ratios.summary([row[name] for row in rows]).values()] for name, text in names.items()
    ]
    lines += ratios.table(["ratio", *ratios.summary([1.0])], summaries)
    columns = [name for name in rows[0] if name != "measure"]
    lines += ["", *ratios.table(columns, [[row[name] for name in columns] for row in rows])]
    lines += ["", "Not measured:", "", *(f"- {line}" for line in failed)] if failed else []
    return "\n".join(lines) + "\n"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random", type=int, default=60, metavar="COUNT", help="random problems")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after")
    parser.add_argument("--output", type=Path, help="without extension")
    return parser.parse_args(arguments)


def main() -> int:
    options = parsed()
    machine.require_gpu()
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    until = time.monotonic() + options.seconds
    drawn = list(problems(options.random, options.seed))
    random.Random(options.seed).shuffle(drawn)  # a run that ends early has problems of each kind
    for m, n, k in drawn:
        if time.monotonic() > until:
            failed.append(f"{m}x{n}x{k}: the time was over")
            continue
        try:
            rows.append(row_of(m, n, k, microseconds(m, n, k)))
            print(json.dumps(rows[-1]), flush=True)
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed.append(f"{m}x{n}x{k}: {str(error).splitlines()[0][:200]}")
            print(failed[-1], flush=True)
    if options.output and rows:
        rows.sort(key=lambda row: (row["n"], row["k"], row["m"]))
        head: dict[str, Any] = machine.gpu_run("benchmarks.compare.gated_products")
        machine.write_rows(options.output, head | {"not_measured": failed}, rows)
        machine.write_page(options.output, page(head, rows, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
