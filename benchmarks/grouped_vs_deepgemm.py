"""DeepGEMM's products by our kernels and by its own: the same calls of both modules, in one run.

    python benchmarks/grouped_vs_deepgemm.py [KIND ...] [--part I/N] [--output results/grouped_vs_deepgemm]

`deep_gemm` is imported from the environment (2.6 or newer, built for this torch); ours is
`tilewright.compat.deep_gemm`. Both are measured in turn, replay by replay: a CUDA graph of calls that take
operands in turn (cold L2), random data, medians. Scales of rows lie as kernels read them, so that neither
side converts any. A ratio is DeepGEMM's time over ours. Results are compared with products of what was
quantised. `host`: microseconds of a call until it returns, the least mean of 100 calls, of operands that
take the GPU less. Writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from tilewright import timing
from tilewright.compat import deep_gemm as ours
from tilewright.compat.deep_gemm.testing import calc_diff
from tilewright.errors import TilewrightError

SHAPES = Path(__file__).parent / "shapes" / "grouped.yaml"
DENSE = [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)]
ROWS = (1, 128, 4096)
ALLOTTED = 4096  # rows of a group, masked
ALIGNMENT = 128
REPLAYS = 7
MOST_BYTES = 6 * 10**9  # of all sets of operands
HOST_CALLS = 100
Call = Callable[[Any, "Operands"], None]  # of a module


@dataclass
class Operands:
    """What one call reads and writes."""

    tensors: tuple[Any, ...]
    d: torch.Tensor
    wanted: torch.Tensor | None = None  # of the rows that count, and which those are
    rows: torch.Tensor | None = None

    def copy(self) -> Operands:
        return Operands(_cloned(self.tensors), torch.empty_like(self.d).copy_(self.d))


@dataclass
class Problem:
    """`make` makes one set of operands; `call` calls a module's function; `torch`, one of torch's own."""

    kind: str
    shape: str
    flops: float
    make: Callable[[], Operands]
    call: Call
    most: float = 1e-3  # what the results may differ by (`calc_diff`)
    torch: Callable[[Operands], Any] | None = None
    extents: dict[str, int] = field(default_factory=dict)


def _cloned(value: Any) -> Any:
    """Copies that lie as the originals do."""
    if isinstance(value, tuple):
        return tuple(map(_cloned, value))
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    whole = value.dtype.itemsize == 1
    (made.view(torch.uint8) if whole else made).copy_(value.view(torch.uint8) if whole else value)
    return made


def random_matrix(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def by_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with scales of 128 of k of a row, as kernels read them."""
    data, scales = ours.per_token_cast_to_fp8(x.reshape(-1, x.shape[-1]), use_ue8m0=False)
    scales = scales.view(*x.shape[:-1], -1)
    return data.view(x.shape), ours.get_mn_major_tma_aligned_tensor(scales)


def by_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with scales of blocks of 128x128."""
    if x.dim() == 2:
        return ours.per_block_cast_to_fp8(x, use_ue8m0=False)
    pairs = [ours.per_block_cast_to_fp8(one, use_ue8m0=False) for one in x]
    return torch.stack([data.view(torch.uint8) for data, _ in pairs]).view(torch.float8_e4m3fn), torch.stack(
        [scales for _, scales in pairs]
    )


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=dtype)


def dense_fp8() -> Iterator[Problem]:
    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        return Operands((by_rows(a), by_blocks(b)), empty(m, n), a @ b.mT)

    def by_torch(x: Operands) -> Any:
        (a, of_a), (b, of_b) = x.tensors
        return torch._scaled_mm(a, b.mT, scale_a=of_a, scale_b=of_b.mT, out_dtype=torch.bfloat16)

    for m in ROWS:
        for n, k in DENSE:
            yield Problem(
                "dense_fp8",
                f"{m}x{n}x{k}",
                2.0 * m * n * k,
                functools.partial(make, m, n, k),
                lambda module, x: module.fp8_gemm_nt(*x.tensors, x.d),
                torch=by_torch,
            )


def dense_fp8_gradient() -> Iterator[Problem]:
    """Both operands with scales of 128 of k of a row, added to an FP32 result."""

    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        d = torch.zeros(m, n, device="cuda")
        return Operands((by_rows(a), by_rows(b)), d, a.float() @ b.float().mT)

    for n, k in DENSE:
        m = 4096
        yield Problem(
            "dense_fp8_gradient",
            f"{n}x{k}x{m}",
            2.0 * m * n * k,
            functools.partial(make, n, k, m),
            lambda module, x: module.fp8_gemm_nt(*x.tensors, x.d, c=x.d, recipe=(1, 1, 128)),
        )


def dense_bf16() -> Iterator[Problem]:
    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        return Operands((a, b), empty(m, n), a @ b.mT)

    for m in ROWS:
        for n, k in DENSE:
            yield Problem(
                "dense_bf16",
                f"{m}x{n}x{k}",
                2.0 * m * n * k,
                functools.partial(make, m, n, k),
                lambda module, x: module.bf16_gemm_nt(*x.tensors, x.d),
                most=1e-5,
                torch=lambda x: torch.mm(x.tensors[0], x.tensors[1].mT, out=x.d),
            )


def group_rows(shape: dict[str, int]) -> list[int]:
    draw = random.Random(0)
    return [int(shape["m"] * draw.uniform(0.7, 1.3)) for _ in range(shape["g"])]


def contiguous(fp8: bool) -> Iterator[Problem]:
    def make(rows: list[int], n: int, k: int) -> Operands:
        aligned = [-(-each // ALIGNMENT) * ALIGNMENT for each in rows]
        a, b = random_matrix(sum(aligned), k), random_matrix(len(rows), n, k)
        groups = torch.full((sum(aligned),), -1, device="cuda", dtype=torch.int32)
        wanted, start = torch.zeros(sum(aligned), n, device="cuda", dtype=torch.bfloat16), 0
        for group, (count, taken) in enumerate(zip(rows, aligned, strict=True)):
            groups[start : start + count] = group
            a[start + count : start + taken] = 0
            wanted[start : start + count] = a[start : start + count] @ b[group].mT
            start += taken
        operands = (by_rows(a), by_blocks(b)) if fp8 else (a, b)
        return Operands((*operands, groups), empty(*wanted.shape), wanted, groups >= 0)

    def call(module: Any, x: Operands) -> None:
        a, b, groups = x.tensors
        name = "m_grouped_fp8_gemm_nt_contiguous" if fp8 else "m_grouped_bf16_gemm_nt_contiguous"
        getattr(module, name)(a, b, x.d, groups, ensure_zero_padding=False)

    for shape in yaml.safe_load(SHAPES.read_text(encoding="utf-8"))["contiguous"]:
        rows, n, k = group_rows(shape), shape["n"], shape["k"]
        yield Problem(
            f"contiguous_{'fp8' if fp8 else 'bf16'}",
            f"{shape['g']}x{shape['m']}x{n}x{k}",
            2.0 * sum(rows) * n * k,
            functools.partial(make, rows, n, k),
            call,
            most=1e-3 if fp8 else 1e-5,
        )


def masked(fp8: bool) -> Iterator[Problem]:
    def make(rows: list[int], n: int, k: int) -> Operands:
        a, b = random_matrix(len(rows), ALLOTTED, k), random_matrix(len(rows), n, k)
        counts = torch.tensor(rows, device="cuda", dtype=torch.int32)
        valid = torch.arange(ALLOTTED, device="cuda") < counts[:, None]
        most = max(rows)
        wanted = empty(len(rows), ALLOTTED, n)
        wanted[:, :most] = a[:, :most] @ b.mT
        operands = (by_rows(a), by_blocks(b)) if fp8 else (a, b)
        return Operands((*operands, counts), empty(len(rows), ALLOTTED, n), wanted, valid)

    def call(expected: int, module: Any, x: Operands) -> None:
        a, b, counts = x.tensors
        name = "m_grouped_fp8_gemm_nt_masked" if fp8 else "m_grouped_bf16_gemm_nt_masked"
        getattr(module, name)(a, b, x.d, counts, expected)

    for shape in yaml.safe_load(SHAPES.read_text(encoding="utf-8"))["masked"]:
        rows, n, k, expected = group_rows(shape), shape["n"], shape["k"], int(shape["m"] * 1.2)
        yield Problem(
            f"masked_{'fp8' if fp8 else 'bf16'}",
            f"{shape['g']}x{shape['m']}x{n}x{k}",
            2.0 * sum(rows) * n * k,
            functools.partial(make, rows, n, k),
            functools.partial(call, expected),
            most=1e-3 if fp8 else 1e-5,
        )


def einsum() -> Iterator[Problem]:
    def make(equation: str, x: tuple[int, ...], y: tuple[int, ...], d: tuple[int, ...]) -> Operands:
        a, b = random_matrix(*x), random_matrix(*y)
        return Operands((equation, a, b), empty(*d), torch.einsum(equation, a, b))

    for h, r, d in ((128, 512, 128), (8, 4096, 1024)):
        for b in (4, 32, 128, 4096, 8192):
            for equation, x, z in (
                ("bhr,hdr->bhd", (b, h, r), (b, h, d)),
                ("bhd,hdr->bhr", (b, h, d), (b, h, r)),
            ):
                yield Problem(
                    f"einsum {equation}",
                    f"b={b} h={h} r={r} d={d}",
                    2.0 * b * h * r * d,
                    functools.partial(make, equation, x, (h, d, r), z),
                    lambda module, x: module.einsum(*x.tensors, x.d),
                    most=1e-6,
                    torch=lambda x: torch.einsum(*x.tensors),
                )


def fp8_einsum() -> Iterator[Problem]:
    def make(b: int, h: int, r: int, d: int) -> Operands:
        x, y = random_matrix(b, h, r), random_matrix(h, d, r)
        data, scales = ours.per_token_cast_to_fp8(x.view(-1, r), use_ue8m0=False)
        # Their transposition is part of the call on both sides.
        pair = data.view(x.shape), scales.view(b, h, -1)
        return Operands((pair, by_blocks(y)), empty(b, h, d), torch.einsum("bhr,hdr->bhd", x, y))

    for b in (4, 32, 128, 4096, 8192):
        h, r, d = 8, 4096, 1024
        yield Problem(
            "fp8_einsum bhr,hdr->bhd",
            f"b={b} h={h} r={r} d={d}",
            2.0 * b * h * r * d,
            functools.partial(make, b, h, r, d),
            lambda module, x: module.fp8_einsum("bhr,hdr->bhd", *x.tensors, x.d),
        )


def reduced() -> Iterator[Problem]:
    def make(s: int, m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(s, m, k), random_matrix(s, n, k)
        # Sums of random products differ by what is lost beside sums that cancel: F32 throughout.
        wanted = sum(
            torch.einsum("bmk,bnk->mn", x.float(), y.float())
            for x, y in zip(a.split(256), b.split(256), strict=True)
        )
        return Operands((a, b), torch.zeros(m, n, device="cuda"), wanted)

    for s in (129, 4096, 8192):
        for m, n, k in ((128, 384, 128), (256, 256, 256), (384, 128, 384)):
            yield Problem(
                "einsum bmk,bnk->mn",
                f"b={s} {m}x{n}x{k}",
                2.0 * s * m * n * k,
                functools.partial(make, s, m, n, k),
                lambda module, x: module.einsum("bmk,bnk->mn", *x.tensors, x.d, c=x.d),
                most=1e-5,
                torch=lambda x: torch.einsum("bmk,bnk->mn", *x.tensors),
            )


KINDS: dict[str, Callable[[], Iterator[Problem]]] = {
    "dense_fp8": dense_fp8,
    "dense_fp8_gradient": dense_fp8_gradient,
    "contiguous_fp8": lambda: contiguous(fp8=True),
    "masked_fp8": lambda: masked(fp8=True),
    "contiguous_bf16": lambda: contiguous(fp8=False),
    "masked_bf16": lambda: masked(fp8=False),
    "dense_bf16": dense_bf16,
    "einsum": einsum,
    "fp8_einsum": fp8_einsum,
    "reduced": reduced,
}


def difference(problem: Problem, operands: Operands, module: Any) -> float:
    """Of the rows that count, from the product before quantising. Raises ValueError where it is too large."""
    operands.d.zero_()
    problem.call(module, operands)
    assert operands.wanted is not None
    found, wanted = operands.d, operands.wanted
    if operands.rows is not None:
        found, wanted = found[operands.rows], wanted[operands.rows]
    diff = float(calc_diff(found, wanted))
    if not diff < problem.most:
        raise ValueError(
            f"{problem.kind} {problem.shape}: differs by {diff:.2e}, {problem.most:.0e} is allowed"
        )
    return diff


def host_microseconds(call: Callable[[], Any]) -> float:
    best = math.inf
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(HOST_CALLS):
            call()
        best = min(best, (time.perf_counter() - started) / HOST_CALLS)
    torch.cuda.synchronize()
    return round(best * 1e6, 2)


def measure(problem: Problem, theirs: Any) -> dict[str, Any]:
    """One row. Raises ValueError where a result is wrong."""
    torch.manual_seed(0)
    first = problem.make()
    diffs = [difference(problem, first, module) for module in (ours, theirs)]
    size = sum(_bytes(each) for each in (*first.tensors, first.d))
    l2 = torch.cuda.get_device_properties().L2_cache_size
    count = max(2, min(timing.rotations(size, l2), MOST_BYTES // size))
    sets = [first, *(first.copy() for _ in range(count - 1))]
    calls: list[Callable[[Operands], Any]] = [lambda x, m=m: problem.call(m, x) for m in (ours, theirs)]
    if problem.torch is not None and _works(problem.torch, first):
        calls.append(problem.torch)
    graphs = [timing.Replays([lambda x=one, c=call: c(x) for one in sets]) for call in calls]
    for graph in graphs:
        graph.replay()
    rounds = [[graph.seconds() for graph in graphs] for _ in range(REPLAYS)]
    us = [round(statistics.median(seconds) * 1e6, 3) for seconds in zip(*rounds, strict=True)]
    row = {
        **{"kind": problem.kind, "shape": problem.shape, "us": us[0], "deep_gemm_us": us[1]},
        **{"ratio": round(us[1] / us[0], 4), "torch_us": us[2] if len(us) > 2 else None},
        **{"tflops": round(problem.flops / us[0] / 1e6, 1), "diff": diffs[0], "deep_gemm_diff": diffs[1]},
    }
    if us[0] < 30:
        row["host_us"] = host_microseconds(lambda: problem.call(ours, first))
        row["deep_gemm_host_us"] = host_microseconds(lambda: problem.call(theirs, first))
    return row


def _works(call: Callable[[Operands], Any], operands: Operands) -> bool:
    """Whether torch has the op, for these."""
    try:
        call(operands)
    except (RuntimeError, ValueError, TypeError):
        return False
    return True


def _bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By kind: ratios' geomean and least, and the median share of DeepGEMM's host time."""
    found = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        ratios = [row["ratio"] for row in of_kind]
        found[kind] = {
            "shapes": len(ratios),
            "geomean": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4),
            "least": min(ratios),
        }
        host = [row["host_us"] / row["deep_gemm_host_us"] for row in of_kind if "host_us" in row]
        if host:
            found[kind]["host"] = round(statistics.median(host), 3)
    return found


def text(rows: list[dict[str, Any]], failed: list[str], version: str) -> str:
    lines = [
        "# DeepGEMM's products: its own kernels beside ours",
        "",
        f"`python benchmarks/grouped_vs_deepgemm.py {' '.join(sys.argv[1:])}`; "
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, DeepGEMM {version}. A ratio is "
        "DeepGEMM's time over ours; TFLOP/s and the difference (1 - 2xy/(xx+yy), from the product before "
        "quantising) are ours.",
        "",
        "| kind | shapes | geomean | least | host time, share of DeepGEMM's |",
        "|---|---|---|---|---|",
        *(
            f"| {kind} | {each['shapes']} | {each['geomean']:.3f} | {each['least']:.3f} | "
            f"{each.get('host', '')} |"
            for kind, each in summary(rows).items()
        ),
        "",
        "| kind | shape | us | DeepGEMM | torch | ratio | TFLOP/s | difference | host us | DeepGEMM's |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['kind']} | {row['shape']} | {row['us']:.1f} | {row['deep_gemm_us']:.1f} | "
            f"{row['torch_us'] or ''} | {row['ratio']:.3f} | {row['tflops']:.0f} | {row['diff']:.1e} | "
            f"{row.get('host_us', '')} | {row.get('deep_gemm_host_us', '')} |"
            for row in rows
        ),
        *(["", "Not measured:", "", *(f"- {one}" for one in failed)] if failed else []),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--part", default="1/1", help="I/N: every Nth problem, from the Ith on")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    import deep_gemm as theirs  # noqa: PLC0415 (--help works without it)

    part, parts = map(int, given.part.split("/"))
    problems = [problem for kind in given.kinds or KINDS for problem in KINDS[kind]()]
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for problem in problems[part - 1 :: parts]:
        try:
            rows.append(measure(problem, theirs))
            print({name: value for name, value in rows[-1].items() if value is not None}, flush=True)
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed.append(f"{problem.kind} {problem.shape}: {str(error).splitlines()[0][:200]}")
            print(failed[-1], flush=True)
        torch.cuda.empty_cache()
        if given.output and rows:
            data = {"summary": summary(rows), "rows": rows, "failed": failed}
            given.output.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
            made = text(rows, failed, theirs.__version__)
            given.output.with_suffix(".md").write_text(made, encoding="utf-8", newline="\n")
    print(json.dumps(summary(rows), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
