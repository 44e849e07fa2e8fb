"""tilewright.gemm beside cuBLAS (torch.mm, torch._scaled_mm) on layers of language models.

    python -m benchmarks.compare.gemm_vs_cublas --dtype bf16 fp16 fp8 --output benchmarks/results/gemm_yaml

The tactic is the runtime's own choice: what is tuned for the GPU, else the model's first. Both sides are
measured in turn, replay by replay (gemm_beside_cublas.py): CUDA graphs of calls on operands that L2 does not
hold, random data, medians; D is checked against float64 first. A ratio is cuBLAS's time over ours: more than
1 is faster than cuBLAS. A shape is *held* at a ratio of 0.95; below 15 us, half a microsecond is allowed.
Problems that cuBLAS does not compute are left out. Writes OUTPUT_TYPE.md.

`tilewright tune --again --results FILE` lists the other tactics and their times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from benchmarks.lib import machine
from benchmarks.lib.gemm_beside_cublas import chosen, head, microseconds

from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import FP8, OUTPUTS, Problem

SHAPES = Path(__file__).parents[1] / "shapes" / "gemm.yaml"
OPERANDS = {"bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "tf32": "tf32", "s8": "s8"}
ENOUGH = 0.95
SHORT_US, ALLOWED_US = 15, 0.5  # up to SHORT_US, events and launches of graphs err by as much as ALLOWED_US
COLUMNS = ("layer", "m", "n", "k", "us", "peer us", "ratio", "held", "source", "tactic")


def problems(dtype: str, model: str) -> Iterator[tuple[str, Problem]]:
    """A name and a problem for each layer and m, and the squares; each once."""
    listed = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    a = OPERANDS[dtype]
    kind = Problem(1, 1, 1, a=a, b=a, d=OUTPUTS[a, a][0], fast_accum=a in FP8)
    names: dict[Problem, str] = {}
    for layer, m in itertools.product(listed["layers"], listed["m"]):
        if model in ("all", layer["model"]):
            name = f"{layer['model']} {layer['name']}"
            names.setdefault(replace(kind, m=m, n=layer["n"], k=layer["k"]), name)
    if model in ("all", "squares"):
        for size in listed["squares"]:
            names.setdefault(replace(kind, m=size, n=size, k=size), "square")
    for problem, name in names.items():
        if measuring.peer(problem) is not None:
            yield name, problem


def measure(name: str, problem: Problem) -> dict[str, Any]:
    choice = chosen(problem)
    peer_us, us = microseconds(problem, choice.operands, [choice.tactic])
    allowed = ALLOWED_US if us < SHORT_US else 0
    return {
        **{"layer": name, "m": problem.m, "n": problem.n, "k": problem.k, "us": us, "peer us": peer_us},
        **{"ratio": round(peer_us / us, 4), "held": peer_us >= ENOUGH * (us - allowed)},
        **{"source": choice.source, "tactic": str(choice.tactic), "error": choice.error},
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = [row["ratio"] for row in rows]
    missed = [f"{row['m']}x{row['n']}x{row['k']} ({row['ratio']:.3f})" for row in rows if not row["held"]]
    return {
        "shapes": len(rows),
        "geomean": round(statistics.geometric_mean(ratios), 4),
        "minimum": min(ratios),
        "held": f"{len(rows) - len(missed)} of {len(rows)}",
        "not held": ", ".join(missed) or "none",
        "by m": ", ".join(f"{m}: {mean:.3f}" for m, mean in by_m(rows)),
        "chosen by": ", ".join(
            f"{source} {count}" for source, count in Counter(row["source"] for row in rows).items()
        ),
        "largest error": max(row["error"] for row in rows),
    }


def by_m(rows: list[dict[str, Any]]) -> Iterator[tuple[int, float]]:
    """Geomeans."""
    for m, some in itertools.groupby(sorted(rows, key=lambda row: row["m"]), key=lambda row: row["m"]):
        yield m, statistics.geometric_mean(row["ratio"] for row in some)


def markdown(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [f"# gemm {header['dtype']} beside {header['peer']}", ""]
    lines += [f"- {key}: {value}" for key, value in header.items()]
    lines += ["", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        cells = {
            **{"us": f"{row['us']:.2f}", "peer us": f"{row['peer us']:.2f}", "ratio": f"{row['ratio']:.3f}"},
            **{"held": "" if row["held"] else "no", "tactic": f"`{row['tactic']}`"},
        }
        lines.append(f"| {' | '.join(str(cells.get(name, row[name])) for name in COLUMNS)} |")
    return "\n".join(lines) + "\n"


def measured(dtype: str, model: str, until: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head of a record, and its rows."""
    rows: list[dict[str, Any]] = []
    before, peer = "", None
    for name, problem in problems(dtype, model):
        if rows and time.monotonic() > until:
            break
        rows.append(measure(name, problem))
        print(json.dumps({"dtype": dtype, **rows[-1]}), flush=True)
        before = before or machine.clocks()  # after the first, so that they are warm
        peer = peer or measuring.peer(problem)
        torch.cuda.empty_cache()
    assert peer is not None
    return {
        **{"measure": "warm", "dtype": dtype, "peer": peer[0]},
        **head(before),
        **summary(rows),
    }, rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="all", help="a model of the file, `squares` or `all`")
    parser.add_argument(
        "--dtype", choices=OPERANDS, nargs="+", default=["bf16", "fp16", "fp8"], help="types of the operands"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no shape later than this")
    parser.add_argument("--output", type=Path, help="without type and extension")
    arguments = parser.parse_args()
    machine.require_gpu()
    until = time.monotonic() + arguments.seconds
    for dtype in arguments.dtype:
        header, rows = measured(dtype, arguments.model, until)
        print(json.dumps(header), flush=True)
        if arguments.output:
            output = arguments.output.with_name(f"{arguments.output.name}_{dtype}")
            machine.write_page(output, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
