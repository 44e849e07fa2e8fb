"""tilewright.gemm beside cuBLAS (torch.mm, torch._scaled_mm) on the layers that people serve.

    python benchmarks/gemm_vs_cublas.py --model llama-3.1-8b --dtype bf16 --output results/bf16

Both are measured in the same run: random data, D checked first, a CUDA graph of calls that take operands in
turn so that L2 is cold, medians of replays. A ratio is cuBLAS's time over ours: more than 1 is faster than
cuBLAS. `--tactics all` times every legal built kernel of every shape with every split (and the best with
every raster and swizzle), not only the tactic selected, and records the best: it says what the selection
leaves on the table. Writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

import machine
import torch
import yaml

from tilewright import context
from tilewright.errors import TilewrightError
from tilewright.ops.common.measuring import make_operands, peer_seconds
from tilewright.ops.common.measuring import seconds as seconds_of
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import measuring
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.problem import FP8, OUTPUTS, Problem
from tilewright.tuning.clock import on_gpu
from tilewright.tuning.search import Options, search

SHAPES = Path(__file__).parent / "shapes" / "gemm.yaml"
OPERANDS = {"bf16": "bf16", "f16": "f16", "fp8": "e4m3", "tf32": "tf32", "s8": "s8"}


def problems(arguments: argparse.Namespace) -> Iterator[tuple[str, Problem]]:
    """A name and a problem for each layer and m that is asked for."""
    listed = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    a = OPERANDS[arguments.dtype]
    made = Problem(1, 1, 1, a=a, b=a, d=arguments.out_dtype or OUTPUTS[a, a][0], fast_accum=a in FP8)
    if arguments.shape:
        for text in arguments.shape:
            m, n, k = map(int, text.split("x"))
            yield text, replace(made, m=m, n=n, k=k)
        return
    for layer in listed["layers"]:
        if arguments.model in ("all", layer["model"]):
            for m in arguments.m or listed["m"]:
                yield f"{layer['model']} {layer['name']}", replace(made, m=m, n=layer["n"], k=layer["k"])
    if arguments.model in ("all", "squares"):
        for size in listed["squares"]:
            yield "square", replace(made, m=size, n=size, k=size)


def best_tactic(
    problem: Problem, operands: list[measuring.Operands]
) -> tuple[Tactic, float, list[tuple[float, Tactic]]]:
    """The fastest tactic, its seconds, and all that were tried with theirs: exhaustive tuning."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    found = search(
        FAMILY,
        current.registry,
        problem,
        device,
        make_clock=on_gpu(FAMILY.name, device),
        options=Options.exhaustive(),
    )
    for one in found.failures:
        print(f"  skipped {one.tactic}: {one.failure}", file=sys.stderr)
    if found.tactic is None:
        raise TilewrightError(f"{problem}: {found.reason}")
    tried = sorted((one.seconds, one.tactic) for one in found.timings if one.seconds is not None)
    return found.tactic, seconds_of(operands, found.tactic), tried


def measure(name: str, problem: Problem, tactics: str, times: TextIO | None) -> dict[str, Any]:
    current = context.current()
    device = current.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)
    chosen = current.select(FAMILY, problem, device).tactic
    theirs = peer_seconds(measuring.peer(problem), operands)
    ours = seconds_of(operands, chosen)
    row = {
        "layer": name,
        **{key: value for key, value in asdict(problem).items() if key in "mnk"},
        "tactic": str(chosen),
        "us": ours * 1e6,
        "peer_us": theirs and theirs * 1e6,
        "ratio": theirs and theirs / ours,
        "tflops": problem.flops / ours * 1e-12,
    }
    if tactics == "all":
        best, seconds, tried = best_tactic(problem, operands)
        row |= {"best_tactic": str(best), "best_us": seconds * 1e6, "tried": len(tried)}
        if times is not None:
            measured = {str(tactic): round(one * 1e6, 3) for one, tactic in tried}
            print(json.dumps({"problem": asdict(problem), "us": measured}), file=times, flush=True)
        row["best_ratio"] = theirs and theirs / seconds
    return row


def summary(rows: list[dict[str, Any]], key: str) -> tuple[float, float] | None:
    """Geometric mean and minimum of the ratios."""
    ratios = [row[key] for row in rows if row.get(key)]
    if not ratios:
        return None
    return math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)


def markdown(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    best = any("best_us" in row for row in rows)
    lines = [f"# gemm {header['dtype']} beside {header['peer']}", ""]
    lines += [f"- {key}: {value}" for key, value in header.items()]
    for key in ("ratio", "best_ratio"):
        if (found := summary(rows, key)) is not None:
            lines.append(f"- {key}: geomean {found[0]:.3f}, min {found[1]:.3f} over {len(rows)} shapes")
    titles = ["layer", "m", "n", "k", "us", "peer us", "ratio", "tactic"]
    titles += ["best us", "best ratio", "best tactic"] if best else []
    lines += ["", "| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for row in rows:
        cells = [row["layer"], row["m"], row["n"], row["k"], _text(row["us"]), _text(row["peer_us"])]
        cells += [_text(row["ratio"], 3), f"`{row['tactic']}`"]
        if best:
            cells += [
                _text(row.get("best_us")),
                _text(row.get("best_ratio"), 3),
                f"`{row.get('best_tactic')}`",
            ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _text(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama-3.1-8b", help="a model of the file, `squares` or `all`")
    parser.add_argument("--dtype", choices=OPERANDS, default="bf16")
    parser.add_argument("--out-dtype")
    parser.add_argument("-m", type=int, action="append", help="only these m")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="only these shapes")
    parser.add_argument("--tactics", choices=["selected", "all"], default="selected")
    parser.add_argument("--output", type=Path, help="without extension")
    parser.add_argument(
        "--times", type=argparse.FileType("a"), help="with --tactics all: every time, as JSON lines"
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    found = None
    for name, problem in problems(arguments):
        found = found or measuring.peer(problem)
        row = measure(name, problem, arguments.tactics, arguments.times)
        rows.append(row)
        extra = f"  best {row['best_us']:9.2f} us {row['best_tactic']}" if "best_us" in row else ""
        print(
            f"{name:<24} m {problem.m:<6} n {problem.n:<6} k {problem.k:<6} {row['us']:9.2f} us"
            f"  peer {_text(row['peer_us']):>9} us  ratio {_text(row['ratio'], 3)}  {row['tactic']}{extra}",
            flush=True,
        )
    header = {
        "dtype": arguments.dtype,
        "peer": found[0] if found else "nothing",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "method": "CUDA graph, operands in turn (cold L2), median of 15 replays, random data, D checked",
    }
    for key in ("ratio", "best_ratio"):
        if (totals := summary(rows, key)) is not None:
            print(f"{key}: geomean {totals[0]:.3f}, min {totals[1]:.3f} over {len(rows)} shapes")
    if arguments.output:
        machine.record_both(arguments.output, {**header, "rows": rows}, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
