"""`packed_gemm` on a GPU beside `torch.mm` on 16-bit weights and Humming's kernels.

    python -m benchmarks.compare.packed_weights --output results/packed_weights

For layers' shapes and numbers of rows, in the same run: the tactic that is selected; `torch.mm` on decoded
weights; Humming's layer with its defaults, where it can be imported. All are CUDA graphs of calls that take
operands in turn, so that L2 is cold, medians of rounds in which the sides take turns. Each result of ours is
checked first. Writes OUTPUT.md, after each problem.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine
from benchmarks.lib.in_turn import replayed

from tilewright import context, weight_layout
from tilewright.architectures.device import driver
from tilewright.families.mixed_gemm import measuring
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.families.mixed_gemm.reference import decoded
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays

try:
    from humming.layer import HummingLayer
except ImportError:
    HummingLayer = None

SHAPES = ((8192, 8192), (4096, 14336), (6144, 4096), (28672, 4096))
ROWS = (1, 16, 32, 64, 128, 512, 4096)
# Humming's words for a format.
HUMMING: dict[str, dict[str, Any]] = {
    "int4": {"b_dtype": "uint4"},
    "mxfp4": {"b_dtype": "float4e2m1", "bs_dtype": "float8e8m0"},
    "nvfp4": {"b_dtype": "float4e2m1", "bs_dtype": "float8e4m3"},
}
ROUNDS = 7
MOST_SETS = 8  # of operands: each has its own weights of 16 bits, and Humming's


def humming_calls(problem: Problem, operands: list[Any]) -> list[Callable[[], Any]]:
    """Calls of Humming's layers with random weights; none if it has no such format."""
    format, group = FORMATS[problem.weight_format]
    if HummingLayer is None or format not in HUMMING:
        return []
    config = HUMMING[format] | {"weight_scale_group_size": group}
    dtype = dtype_of(problem.a)
    calls = []
    for operand in operands:
        layer = HummingLayer(problem.n, problem.k, dict(config), torch_dtype=dtype).cuda()
        layer.load_from_unquantized(torch.randn(problem.n, problem.k, device="cuda").to(dtype) / 64)
        layer.transform()
        calls.append(functools.partial(layer, operand.a, outputs=torch.empty_like(operand.out)))
    return calls


def measure(problem: Problem) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)[:MOST_SETS]
    tactic = here.select(FAMILY, problem, device).tactic
    checked(operands[0], tactic)
    wide = [decoded(weight_layout.Packed(operand.weight, operand.scale), problem) for operand in operands]
    multiplied = [
        functools.partial(torch.mm, operand.a, weight.T, out=torch.empty_like(operand.out))
        for operand, weight in zip(operands, wide, strict=True)
    ]
    sides = {
        "ours": Replays([functools.partial(operand.call, tactic) for operand in operands]),
        "torch.mm": Replays(multiplied),
    }
    if calls := humming_calls(problem, operands):
        sides["humming"] = Replays(calls)
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return {"problem": problem, "tactic": str(tactic), "seconds": seconds}


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"# Packed weights on {head['gpu']}"
    yield ""
    yield f"`{head['command']}`, driver {head['driver']}, torch {head['torch']}. Times are us."
    yield ""
    yield "| n x k | m | format | ours | Humming | torch.mm | TB/s | tactic |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        problem, seconds = row["problem"], row["seconds"]
        humming = f"{seconds['humming'] * 1e6:.1f}" if "humming" in seconds else ""
        yield (
            f"| {problem.n} x {problem.k} | {problem.m} | {problem.weight_format} "
            f"| {seconds['ours'] * 1e6:.1f} | {humming} | {seconds['torch.mm'] * 1e6:.1f} "
            f"| {problem.bytes / seconds['ours'] * 1e-12:.2f} "
            f"| `{row['tactic'].removeprefix('mixed_gemm_sm90_')}` |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--formats", nargs="+", default=["int4_g128", "mxfp4", "nvfp4"])
    options = parser.parse_args()
    head = {
        "gpu": torch.cuda.get_device_name(), "driver": driver(), "torch": torch.__version__,
        "command": "python -m benchmarks.compare.packed_weights --output results/packed_weights",
    }  # fmt: skip
    rows = []
    for weight_format in options.formats:
        for n, k in SHAPES:
            for m in ROWS:
                rows.append(measure(Problem(m, n, k, weight_format=weight_format)))
                print(list(markdown(head, rows))[-1], flush=True)
                machine.write_page(options.output, "\n".join(markdown(head, rows)) + "\n")


if __name__ == "__main__":
    main()
