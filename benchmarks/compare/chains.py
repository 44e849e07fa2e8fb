"""Chains of ops beside the sum of their parts.

    python -m benchmarks.compare.chains --output benchmarks/results/chains_h200

With programmatic launch an op begins while the op before it ends. That should save time, but it can cost
time if the early thread blocks crowd the SMs that are free. Therefore each chain (quantising before each
block-scaled product and before an FP8 product, `gemm` after `gemm`, a whole MLP) is timed in a CUDA graph,
and so is each of its ops by itself. Data are random, L2 is cold, the graphs are replayed in turn, and the
times are medians. A chain's loss is its time beyond the sum of its parts; it may be at most --allowed
microseconds. The results of every chain are first compared, to the bit, with those of its ops run one by
one. Writes OUTPUT.md; exits with 1 if a chain loses more.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine
from benchmarks.lib.chain_ops import Chain, Maker, chains

from tilewright.architectures.device import driver
from tilewright.errors import NotBuiltError
from tilewright.tools.timing import Replays

FEWEST_CALLS = 40  # of a graph


def seconds(chain: Chain, replays: int) -> tuple[float, list[float]]:
    """Seconds of the chain, and of each of its ops by itself: medians of replays that take turns."""
    graphs = [_graph(chain.calls), *(_graph(link.alone or link.calls) for link in chain.links)]
    for graph in graphs * 2:
        graph.replay()
    whole, *parts = in_turn.medians(
        {place: graph.seconds for place, graph in enumerate(graphs)}, replays
    ).values()
    return whole * len(chain.links), parts


def _graph(calls: Sequence[Callable[[], Any]]) -> Replays:
    return Replays([*calls] * -(-FEWEST_CALLS // len(calls)))


def row_of(chain: Chain, whole: float, parts: Sequence[float]) -> dict[str, Any]:
    """A chain's row, in microseconds."""
    alone = [1e6 * part for part in parts]
    return {
        "chain": chain.name,
        "shape": chain.shape,
        "ops": [link.name for link in chain.links],
        "parts_us": [round(us, 2) for us in alone],
        "sum_us": round(sum(alone), 2),
        "chain_us": round(1e6 * whole, 2),
        "lost_us": round(1e6 * whole - sum(alone), 2),
    }


def page(head: dict[str, Any], rows: Sequence[dict[str, Any]], skipped: Sequence[str], allowed: float) -> str:
    lines = [
        f"# Chains beside the sum of their parts, {head['gpu']}",
        "",
        f"`{head['command']}`; driver {head['driver']}, torch {head['torch']}. In us.",
        "",
        summary(rows, allowed),
        *(f"Not measured: {name}." for name in skipped),
        "",
        "| chain | m x n x k | parts | sum | chain | lost | ops |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        parts = " + ".join(f"{part:.1f}" for part in row["parts_us"])
        ops = ", ".join(row["ops"])
        cells = (row["chain"], row["shape"], parts, row["sum_us"], row["chain_us"], row["lost_us"], ops)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def too_slow(rows: Sequence[dict[str, Any]], allowed: float) -> list[dict[str, Any]]:
    return [row for row in rows if not row["lost_us"] <= allowed]


def summary(rows: Sequence[dict[str, Any]], allowed: float) -> str:
    if not rows:
        return "No chain was measured."
    worst = max(rows, key=lambda row: float(row["lost_us"]))
    return (
        f"{len(rows)} chains: {len(too_slow(rows, allowed))} take more than {allowed:g} us beyond the sum of "
        f"their parts; the most is {worst['lost_us']:.2f} us ({worst['chain']}, {worst['shape']}), the "
        f"median {statistics.median(row['lost_us'] for row in rows):.2f} us."
    )


def measure(quick: bool, replays: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and what was not built."""
    maker, rows, skipped = Maker(), [], []
    for make in chains(maker, quick):
        try:
            chain = make()
        except NotBuiltError as error:
            skipped.append(error.message)
            continue
        chain.check()
        row = row_of(chain, *seconds(chain, replays))
        rows.append(row)
        print(
            f"{row['chain']:24} {row['shape']:32} {row['sum_us']:8.2f} {row['chain_us']:8.2f} "
            f"{row['lost_us']:+7.2f}  {row['parts_us']}",
            flush=True,
        )
        del chain
    return rows, skipped


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few chains of each kind")
    parser.add_argument("--replays", type=int, default=15, help="of each graph; a time is their median")
    parser.add_argument("--allowed", type=float, default=1.0, metavar="US", help="that a chain may lose")
    parser.add_argument("--output", type=Path, help="without extension")
    options = parser.parse_args()
    machine.require_gpu()
    rows, skipped = measure(options.quick, options.replays)
    print(summary(rows, options.allowed))
    for reason in skipped:
        print(f"not measured: {reason}")
    if options.output:
        head = {
            "gpu": torch.cuda.get_device_name(),
            "driver": driver(),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "command": " ".join(["python -m benchmarks.compare.chains", *sys.argv[1:]]),
        }
        machine.write_page(options.output, page(head, rows, skipped, options.allowed))
    return 1 if too_slow(rows, options.allowed) else 0


if __name__ == "__main__":
    sys.exit(main())
