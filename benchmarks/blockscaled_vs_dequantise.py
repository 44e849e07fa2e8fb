"""Block-scaled products on a GPU beside what there is without them: dequantise, then torch.mm.

    python benchmarks/blockscaled_vs_dequantise.py --model llama-3.1-8b --format nvfp4 --output results/nvfp4

Each problem is timed four ways in the same run, as CUDA graphs of calls that take weights in turn so that L2
is cold, medians of replays: our op as the cost model selects; both operands dequantised to BF16 by one fused
kernel each (torch.compile) and multiplied by torch.mm; torch.mm alone, on weights dequantised beforehand
(which take 3.6 times the memory of NVFP4); and, with --tactics all, our best tactic. D is checked first.
A ratio is the other's time over ours. Writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml

import tilewright
from tilewright import context, reference
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.problem import Problem
from tilewright.ops.common.tactics import Tactic
from tilewright.timing import graph_seconds, rotations

SHAPES = Path(__file__).parent / "shapes" / "gemm.yaml"
OPS: dict[str, Callable[..., Any]] = {
    "nvfp4": tilewright.mm_nvfp4,
    "mxfp4": tilewright.mm_mxfp4,
    "mxfp8": tilewright.mm_mxfp8,
}
SCREENING_REPLAYS = 4
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def dequantise(data: torch.Tensor, scales: torch.Tensor, values: torch.Tensor, block: int) -> torch.Tensor:
    """[rows, k] in BF16. Written for torch.compile, which makes one kernel of it; `values` are E2M1's."""
    fp4 = data.dtype == torch.uint8
    rows, k = data.shape[0], data.shape[1] * (2 if fp4 else 1)
    row = torch.arange(rows, device=data.device)[:, None]
    column = torch.arange(k, device=data.device)[None, :]
    at = column // block
    groups = (k + 4 * block - 1) // (4 * block)
    place = ((row // 128) * groups + at // 4) * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + at % 4
    scale = scales.view(-1)[place]
    if fp4:
        code = (data[row, column // 2] >> (4 * (column % 2)).to(torch.uint8)) & 15
        element = values[code.int()]
    else:
        element = data.float()
    if block == 16:
        factor = scale.view(torch.float8_e4m3fn).float() if scale.dtype == torch.uint8 else scale.float()
    else:
        factor = torch.exp2(scale.float() - 127)
    return (element * factor).to(torch.bfloat16)


class Case:
    """One problem: its operands, with several copies of the weights."""

    def __init__(self, form: str, m: int, n: int, k: int, l2_bytes: int) -> None:
        self.form, self.op, self.problem = form, OPS[form], Problem(m, n, k, a=form, b=form)
        self.block = 16 if form == "nvfp4" else 32
        torch.manual_seed(m + n + k)
        self.a, self.a_scale = self._quantised(torch.randn(m, k, device="cuda"))
        b, b_scale = self._quantised(torch.randn(n, k, device="cuda"))
        copies = rotations(b.numel() + b_scale.numel(), l2_bytes)
        self.weights = [(b.clone(), b_scale.clone()) for _ in range(copies)]
        self.values = torch.tensor(E2M1, device="cuda")
        self.alpha = torch.ones(1, device="cuda")

    def _quantised(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return reference.quantize(x, self.form, 1.0) if self.block == 16 else reference.quantize(x, self.form)

    def ours(self, weight: tuple[torch.Tensor, torch.Tensor], tactic: Tactic | None = None) -> torch.Tensor:
        b, scale = weight
        result: torch.Tensor = self.op(self.a, b.mT, self.a_scale, scale, self.alpha, tactic=tactic)
        return result

    def check(self) -> None:
        b, scale = self.weights[0]
        operands = (self.a, b.mT, self.a_scale, scale, self.form)
        found = reference.compare(
            self.ours(self.weights[0]), reference.product(*operands), reference.magnitude(*operands)
        )
        if not found.passes():
            raise SystemExit(f"{self.problem} is wrong: {found}")

    def seconds(self, tactic: Tactic | None = None, replays: int = 15) -> float:
        calls = [lambda weight=weight: self.ours(weight, tactic) for weight in self.weights]
        return graph_seconds(calls, replays=replays)

    def peers(self, fused: Callable[..., torch.Tensor]) -> tuple[float, float]:
        """Seconds with the weights dequantised in each call, and beforehand."""

        def scale_bytes(scale: torch.Tensor) -> torch.Tensor:
            return scale.view(torch.uint8)

        def expand(data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return fused(data, scale_bytes(scale), self.values, self.block)

        def both(weight: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            return torch.mm(expand(self.a, self.a_scale), expand(*weight).mT)

        each = graph_seconds([lambda weight=weight: both(weight) for weight in self.weights])
        x, w = expand(self.a, self.a_scale), expand(*self.weights[0])
        plain = [w.clone() for _ in range(rotations(2 * w.numel(), l2_bytes()))]
        return each, graph_seconds([lambda one=one: torch.mm(x, one.mT) for one in plain])

    def best(self) -> tuple[str, float]:
        """The fastest tactic of all built kernels."""
        current = context.current()
        records = current.registry.route(FAMILY.name, current.device(0))
        tried = []
        for record in FAMILY.fitting(records, self.problem):
            if current.registry.is_built(record):
                for tactic in FAMILY.candidates(record, self.problem):
                    tried.append((self.seconds(tactic, SCREENING_REPLAYS), tactic))
        again = [(self.seconds(tactic), str(tactic)) for _, tactic in sorted(tried)[:3]]
        seconds, name = min(again)
        return name, seconds


def l2_bytes() -> int:
    return context.current().device(0).l2_bytes


def problems(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, int]]:
    listed = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    for layer in listed["layers"]:
        if arguments.model in ("all", layer["model"]):
            for m in arguments.m or (1, 8, 16, 32, 64, 128):
                yield f"{layer['model']} {layer['name']}", m, layer["n"], layer["k"]


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    fused = torch.compile(dequantise, dynamic=False)
    torch._dynamo.config.cache_size_limit = 256
    current = context.current()
    rows = []
    for name, m, n, k in problems(arguments):
        case = Case(arguments.format, m, n, k, l2_bytes())
        case.check()
        chosen, _ = FAMILY.choose(
            current.registry,
            current.registry.route(FAMILY.name, current.device(0)),
            case.problem,
            current.device(0),
        )
        ours = case.seconds()
        each, plain = case.peers(fused)
        row = {
            "layer": name, "m": m, "n": n, "k": k, "tactic": str(chosen), "seconds": ours,
            "dequantise_mm_seconds": each, "mm_seconds": plain,
            "ratio": each / ours, "ratio_to_mm": plain / ours,
        }  # fmt: skip
        if arguments.tactics == "all":
            row["best_tactic"], row["best_seconds"] = case.best()
        rows.append(row)
        print(
            f"{name:28} m {m:4}: {ours * 1e6:8.2f} us, {row['ratio']:6.2f}x, {row['ratio_to_mm']:5.2f}x",
            flush=True,
        )
    return rows


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def page(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    few = [row for row in rows if row["m"] <= 64]
    lines = [
        f"# {head['format']} beside dequantise-then-torch.mm, {head['gpu']}",
        "",
        f"`{head['command']}`; driver {head['driver']}, torch {head['torch']}. Ratios: their time over ours.",
        "",
        f"m up to 64: geomean {geomean([row['ratio'] for row in few]):.2f}, least "
        f"{min(row['ratio'] for row in few):.2f} against dequantise-then-mm; geomean "
        f"{geomean([row['ratio_to_mm'] for row in few]):.2f} against mm on weights dequantised beforehand.",
        "",
        "| layer | m | n | k | us | dequantise + mm | ratio | mm alone | ratio | tactic |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (
            row["layer"], row["m"], row["n"], row["k"], f"{row['seconds'] * 1e6:.1f}",
            f"{row['dequantise_mm_seconds'] * 1e6:.1f}", f"{row['ratio']:.2f}",
            f"{row['mm_seconds'] * 1e6:.1f}", f"{row['ratio_to_mm']:.2f}",
            row["tactic"].removeprefix("blockscaled_gemm_"),
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if all("best_seconds" in row for row in rows):
        loss = [row["seconds"] / row["best_seconds"] for row in rows]
        lines += [
            "",
            f"The tactic selected against the best: {geomean(loss):.3f} in geomean, {max(loss):.2f} at worst",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama-3.1-8b", help="a model of shapes/gemm.yaml, or all")
    parser.add_argument("--format", choices=sorted(OPS), default="nvfp4")
    parser.add_argument("--m", type=int, action="append")
    parser.add_argument("--tactics", choices=("selected", "all"), default="selected")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 1
    rows = measure(arguments)
    head = {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "format": arguments.format,
        "command": " ".join(["python benchmarks/blockscaled_vs_dequantise.py", *sys.argv[1:]]),
    }
    arguments.output.with_suffix(".json").write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text(page(head, rows))
    return 0


def driver() -> str:
    """The driver's release, as nvidia-smi says it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
