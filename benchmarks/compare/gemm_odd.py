"""`gemm` of extents that are not multiples of 8 beside torch.mm. Rows begin at multiples of 16 bytes.

    python -m benchmarks.compare.gemm_odd [--output benchmarks/results/gemm_odd.md]

Nothing is copied. D is either contiguous, so that its rows begin anywhere, or its rows begin at multiples
of 16 bytes too. Both sides are timed in turn, in CUDA graphs on operands that L2 does not hold, and results
are checked against float64. FP8 has no peer: torch._scaled_mm requires multiples of 16.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from benchmarks.lib import in_turn, machine

import tilewright
from tilewright import context
from tilewright.tools import timing

SHAPES = [(127, 129, 136), (1000, 1001, 1016), (4097, 264, 72), (333, 5001, 4001), (4097, 4099, 4095)]
REPLAYS = 11
COLUMNS = ("types", "m x n x k", "D's rows", "us", "torch.mm us", "torch's time over ours", "error norm")


def matrix(rows: int, columns: int, dtype: torch.dtype, *, aligned: bool = True) -> torch.Tensor:
    """Rows begin at multiples of 16 bytes, or without gaps."""
    unit = 16 // dtype.itemsize if aligned else 1
    width = -(-columns // unit) * unit
    return torch.randn(rows, width, device="cuda").to(dtype)[:, :columns]


def measured(shape: tuple[int, int, int], dtype: torch.dtype, *, aligned: bool) -> tuple[str, ...]:
    m, n, k = shape
    size = (m * k + n * k) * dtype.itemsize + 2 * m * n
    device = context.current().device(0)
    sets = [
        (matrix(m, k, dtype), matrix(n, k, dtype).t(), matrix(m, n, torch.bfloat16, aligned=aligned))
        for _ in range(timing.rotations(size, device.l2_bytes))
    ]
    a, b, out = sets[0]
    out.fill_(float("nan"))
    tilewright.gemm(a, b, out=out)
    exact = a.double() @ b.double()
    error = float((out.double() - exact).norm() / exact.norm())
    sides = {"": timing.Replays([lambda x=x: tilewright.gemm(x[0], x[1], out=x[2]) for x in sets])}  # type: ignore[misc]
    if dtype == torch.bfloat16:
        sides["torch"] = timing.Replays([lambda x=x: torch.mm(x[0], x[1], out=x[2]) for x in sets])  # type: ignore[misc]
    times = in_turn.medians({name: graph.seconds for name, graph in sides.items()}, REPLAYS)
    name = str(dtype).removeprefix("torch.")
    ours, torchs = times[""], times.get("torch")
    peer = (f"{torchs * 1e6:.1f}", f"{torchs / ours:.2f}") if torchs is not None else ("", "")
    lies = "aligned" if aligned else "contiguous"
    return (name, "x".join(map(str, shape)), lies, f"{ours * 1e6:.1f}", *peer, f"{error:.1e}")


def table() -> Iterator[str]:
    yield "# Odd extents"
    yield ""
    gpu, command = (
        torch.cuda.get_device_name(),
        " ".join(["python", "benchmarks/compare/gemm_odd.py", *sys.argv[1:]]),
    )
    yield f"{gpu}, torch {torch.__version__}. D of BF16, L2 cold. Made by `{command}`."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for shape in SHAPES:
            for aligned in (False, True):
                yield f"| {' | '.join(measured(shape, dtype, aligned=aligned))} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there")
    arguments = parser.parse_args()
    machine.require_gpu()
    torch.manual_seed(0)
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
