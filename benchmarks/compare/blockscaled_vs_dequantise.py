"""Block-scaled products on a GPU beside what there is without them: dequantise, then torch.mm.

    python -m benchmarks.compare.blockscaled_vs_dequantise --model llama-3.1-8b --format nvfp4 \
        --output results/nvfp4

Each problem is timed four ways in the same run, as CUDA graphs of calls that take weights in turn so that L2
is cold, medians of replays: our op as the cost model selects; both operands dequantised to BF16 by one fused
kernel each (torch.compile) and multiplied by torch.mm; torch.mm alone, on weights dequantised beforehand
(which take 3.6 times the memory of NVFP4); and, with --tactics all, our best tactic. Every D is checked
first, the peer's too. A ratio is the other's time over ours. Writes OUTPUT.md.
"""

from __future__ import annotations

import argparse
import functools
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from benchmarks.lib import machine

import tilewright
from tilewright import context, reference
from tilewright.architectures.device import driver
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.tools.benchmarking.report import geomean
from tilewright.tools.timing import graph_seconds, rotations

SHAPES = Path(__file__).parents[1] / "shapes" / "gemm.yaml"
OPS: dict[str, Callable[..., Any]] = {
    "nvfp4": tilewright.mm_nvfp4,
    "mxfp4": tilewright.mm_mxfp4,
    "mxfp8": tilewright.mm_mxfp8,
}
SCREENING_REPLAYS = 4
ROWS = (1, 8, 16, 32, 64, 128)
COSINE = 0.999


def expand(words: torch.Tensor, scales: torch.Tensor, block: int, bits: int) -> torch.Tensor:
    """Four elements a word (int16 of FP4, int32 of FP8) to four BF16, 8 bytes that are stored at once.

    Written for torch.compile, which makes one kernel of it, bound by what it writes. Exact: every element
    times its (finite) scale is a BF16.
    """
    row = torch.arange(words.shape[0], device=words.device)[:, None]
    column = torch.arange(words.shape[1], device=words.device)[None, :]
    at = column // (block // 4)
    groups = (words.shape[1] + block - 1) // block  # of four scale factors along k
    place = ((row // 128) * groups + at // 4) * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + at % 4
    scale = scales[place]
    if block == 16:
        factor = scale.view(torch.float8_e4m3fn).float()
    else:
        exponent = scale.to(torch.int32)
        factor = torch.where(exponent == 0, 0x400000, exponent << 23).view(torch.float32)
    word = words.to(torch.int32)
    elements = []
    for i in range(4):
        code = word >> (bits * i)
        if bits == 4:  # exponent and mantissa go where float16 has them, which knows the subnormals too
            half, unit = ((code & 0x8) << 12) | ((code & 0x7) << 9), 2.0**14
        else:
            half, unit = ((code & 0x80) << 8) | ((code & 0x7F) << 7), 2.0**8
        element = half.to(torch.int16).view(torch.float16).float() * unit
        elements.append((element * factor).view(torch.int32))
    low, high = (
        ((first >> 16) & 0xFFFF) | (second & -0x10000) for first, second in (elements[:2], elements[2:])
    )
    return (low.to(torch.int64) & 0xFFFFFFFF) | (high.to(torch.int64) << 32)


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
        self.alpha = torch.ones(1, device="cuda")
        operands = (self.a, b.mT, self.a_scale, b_scale, form)
        self.exact, self.magnitude = reference.product(*operands), reference.magnitude(*operands)

    def _quantised(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return reference.quantize(x, self.form, 1.0) if self.block == 16 else reference.quantize(x, self.form)

    def ours(self, weight: tuple[torch.Tensor, torch.Tensor], tactic: Tactic | None = None) -> torch.Tensor:
        b, scale = weight
        result: torch.Tensor = self.op(self.a, b.mT, self.a_scale, scale, self.alpha, tactic=tactic)
        return result

    def check(self, actual: torch.Tensor, whose: str) -> None:
        """Ends the program if a result is wrong, before anything is timed."""
        slack = reference.accumulation_slack(self.problem.k)
        result = reference.compare(actual, self.exact, self.magnitude, slack=slack)
        if not result.passes(COSINE):
            raise SystemExit(f"{self.problem}: {whose} is wrong: {result}")

    def seconds(self, tactic: Tactic | None = None, replays: int = 15) -> float:
        self.check(self.ours(self.weights[0], tactic), str(tactic))
        calls = [functools.partial(self.ours, weight, tactic) for weight in self.weights]
        return graph_seconds(calls, replays=replays)

    def peers(self, fused: Callable[..., torch.Tensor]) -> tuple[float, float]:
        """Seconds with both operands dequantised in each call, and beforehand."""
        bits, word = (8, torch.int32) if self.form == "mxfp8" else (4, torch.int16)

        def dequantised(data: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
            words = data.view(torch.uint8).view(word)
            bf16 = fused(words, scales.view(torch.uint8).view(-1), self.block, bits)
            return bf16.view(torch.bfloat16)

        def both(weight: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            return torch.mm(dequantised(self.a, self.a_scale), dequantised(*weight).mT)

        self.check(both(self.weights[0]), "dequantise, then torch.mm")
        dequantising = graph_seconds([functools.partial(both, weight) for weight in self.weights])
        x, w = dequantised(self.a, self.a_scale), dequantised(*self.weights[0])
        plain = [w.clone() for _ in range(rotations(2 * w.numel(), l2_bytes()))]
        return dequantising, graph_seconds([functools.partial(torch.mm, x, weight.mT) for weight in plain])

    def best(self) -> tuple[str, float]:
        """The fastest tactic of all built kernels."""
        current = context.current()
        records = current.registry.route(FAMILY.name, current.device(0))
        tried = []
        for record in FAMILY.fitting(records, self.problem):
            if current.registry.is_built(record):
                for tactic in FAMILY.candidates(record, self.problem, current.device(0)):
                    tried.append((self.seconds(tactic, SCREENING_REPLAYS), tactic))
        again = [(self.seconds(tactic), str(tactic)) for _, tactic in sorted(tried)[:3]]
        seconds, name = min(again)
        return name, seconds


def l2_bytes() -> int:
    return context.current().device(0).l2_bytes


def problems(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, int]]:
    """A name, m, n and k for each layer and m that is asked for."""
    if arguments.shape:
        for text in arguments.shape:
            m, n, k = map(int, text.split("x"))
            yield text, m, n, k
        return
    listed = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    for layer in listed["layers"]:
        if arguments.model in ("all", layer["model"]):
            for m in arguments.m or ROWS:
                yield f"{layer['model']} {layer['name']}", m, layer["n"], layer["k"]


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    torch._dynamo.config.cache_size_limit = 256
    fused = torch.compile(expand, dynamic=False)
    current = context.current()
    rows = []
    for name, m, n, k in problems(arguments):
        case = Case(arguments.format, m, n, k, l2_bytes())
        chosen = current.select(FAMILY, case.problem, current.device(0)).tactic
        ours = case.seconds()
        dequantising, plain = case.peers(fused)
        row = {
            "layer": name, "m": m, "n": n, "k": k, "tactic": str(chosen), "seconds": ours,
            "dequantise_mm_seconds": dequantising, "mm_seconds": plain,
            "ratio": dequantising / ours, "ratio_to_mm": plain / ours,
        }  # fmt: skip
        if arguments.tactics == "all":
            row["best_tactic"], row["best_seconds"] = case.best()
        rows.append(row)
        print(
            f"{name:28} m {m:4}: {ours * 1e6:8.2f} us, {row['ratio']:6.2f}x, {row['ratio_to_mm']:5.2f}x",
            flush=True,
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    """The means and the least for up to 64 rows, beside dequantising in each call and beforehand."""
    few = [row for row in rows if row["m"] <= 64]
    if not few:
        return "no m up to 64"
    ratios = [row["ratio"] for row in few]
    return (
        f"m up to 64: geomean {geomean(ratios):.2f}, least {min(ratios):.2f} against dequantise-then-mm; "
        f"geomean {geomean([row['ratio_to_mm'] for row in few]):.2f} against mm on weights dequantised "
        "beforehand."
    )


def page(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [
        f"# {head['format']} beside dequantise-then-torch.mm, {head['gpu']}",
        "",
        f"`{head['command']}`; driver {head['driver']}, torch {head['torch']}. Ratios: their time over ours.",
        "",
        summary(rows),
        "",
        "| layer | m | n | k | us | dequantise + mm | over dequantise + mm | mm alone | over mm alone "
        "| tactic |",
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
    parser.add_argument("--format", choices=sorted(OPS), default="nvfp4", help="format of both operands")
    parser.add_argument("--m", type=int, action="append", help="only these m")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="only these shapes")
    parser.add_argument(
        "--tactics", choices=("selected", "all"), default="selected", help="time the selected tactic, or all"
    )
    parser.add_argument("--output", type=Path, help="without extension")
    arguments = parser.parse_args()
    machine.require_gpu()
    rows = measure(arguments)
    print(summary(rows))
    head = {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "format": arguments.format,
        "command": " ".join(["python -m benchmarks.compare.blockscaled_vs_dequantise", *sys.argv[1:]]),
    }
    if arguments.output:
        machine.write_page(arguments.output, page(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
