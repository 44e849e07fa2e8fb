"""DeepGEMM's products by our kernels and by its own: the same calls of both modules, in one run.

    python -m benchmarks.compare.grouped_vs_deepgemm [KIND ...] [--part I/N]
        [--output results/grouped_vs_deepgemm]

`deep_gemm` is imported from the environment (2.6 or newer, built for this torch); ours is
`tilewright.compat.deep_gemm`. Both are measured in turn, replay by replay: a CUDA graph of calls that take
operands in turn (cold L2), random data, medians. Scales of rows are in the layout that kernels read, so that
neither side converts them. A ratio is DeepGEMM's time over ours. Results are compared with products of the
values before quantising. `host` is the microseconds until a call returns: the least mean of 100 calls, on
operands that take the GPU less time than that. Writes OUTPUT.md.

--check checks the results, lets DeepGEMM compile its kernels, and times nothing. --checked takes its files,
and times without checking again: a GPU that is reserved for timing is needed for no longer than that.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import einsum_problems, grouped_problems, in_turn, machine
from benchmarks.lib.deepgemm_operands import Operands, Problem

from tilewright.compat import deep_gemm as ours
from tilewright.compat.deep_gemm.testing import calc_diff
from tilewright.errors import TilewrightError
from tilewright.tools import timing

KINDS = grouped_problems.KINDS | einsum_problems.KINDS
REPLAYS = 7
MOST_BYTES = 6 * 10**9  # of all sets of operands
HOST_CALLS = 100


def difference(problem: Problem, operands: Operands, module: Any) -> float:
    """The difference of the valid rows from the product before quantising. Raises ValueError if it is too
    large."""
    operands.d.zero_()
    problem.call(module, operands)
    assert operands.wanted is not None
    actual, expected = operands.d, operands.wanted
    if operands.rows is not None:
        actual, expected = actual[operands.rows], expected[operands.rows]
    diff = float(calc_diff(actual, expected))
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


def checked(problem: Problem, theirs: Any) -> dict[str, float]:
    """The differences of both sides, without times. Raises ValueError if a result is wrong."""
    torch.manual_seed(0)
    return differences(problem, problem.make(), theirs)


def differences(problem: Problem, operands: Operands, theirs: Any) -> dict[str, float]:
    diffs = {"diff": difference(problem, operands, ours)}
    if not problem.ours_alone:
        diffs["deep_gemm_diff"] = difference(problem, operands, theirs)
    return diffs


def measure(problem: Problem, theirs: Any, diffs: dict[str, float] | None) -> dict[str, Any]:
    """A problem's row. Raises ValueError if a result is wrong, unless `diffs` has the differences already."""
    torch.manual_seed(0)
    first = problem.make()
    if diffs is None:
        diffs = differences(problem, first, theirs)
    size = sum(map(_bytes, (*first.tensors, first.d)))
    l2 = torch.cuda.get_device_properties().L2_cache_size
    count = max(2, min(timing.rotations(size, l2), MOST_BYTES // size))
    sets = [first, *(first.copy() for _ in range(count - 1))]
    modules = {"": ours} if problem.ours_alone else {"": ours, "deep_gemm_": theirs}
    calls: dict[str, list[Callable[[], Any]]] = {
        side: [functools.partial(problem.call, module, operands) for operands in sets]
        for side, module in modules.items()
    }
    if problem.torch is not None and _works(problem.torch, first):
        calls["torch_"] = [problem.torch(operands) for operands in sets]
    graphs = {side: timing.Replays(turns) for side, turns in calls.items()}
    for graph in graphs.values():
        graph.replay()
    times = in_turn.medians({side: graph.seconds for side, graph in graphs.items()}, REPLAYS, rotate=True)
    us = {side: round(seconds * 1e6, 3) for side, seconds in times.items()}
    peer = us.get("deep_gemm_", us.get("torch_", us[""]))  # DeepGEMM lacks it, and torch has it
    row = {
        **{"kind": problem.kind, "shape": problem.shape, "us": us[""], "deep_gemm_us": us.get("deep_gemm_")},
        **{"ratio": round(peer / us[""], 4), "torch_us": us.get("torch_")},
        **{"torch_op": problem.torch_name if "torch_" in us else None},
        **{"tflops": round(problem.flops / us[""] / 1e6, 1), **diffs},
    }
    if us[""] < 30:
        for side, module in modules.items():
            row[f"{side}host_us"] = host_microseconds(lambda module=module: problem.call(module, first))
    return row


def _works(make: Callable[[Operands], Callable[[], Any]], operands: Operands) -> bool:
    """Whether torch has the op for these operands."""
    try:
        make(operands)()
    except (RuntimeError, ValueError, TypeError):
        return False
    return True


def _bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Summaries by kind: the ratios' geomean and least; the geomean of torch's times over ours, if torch has
    the product, and of the better of both; the median share of DeepGEMM's host time."""
    totals = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        ratios = [row["ratio"] for row in of_kind]
        totals[kind] = {
            "shapes": len(ratios),
            "geomean": round(statistics.geometric_mean(ratios), 4),
            "least": min(ratios),
        }
        by_torch = [row["torch_us"] / row["us"] for row in of_kind if row["torch_us"]]
        if by_torch:
            better = [min(row["ratio"], (row["torch_us"] or math.inf) / row["us"]) for row in of_kind]
            totals[kind]["torch"], totals[kind]["better"] = (
                round(statistics.geometric_mean(by_torch), 4),
                round(statistics.geometric_mean(better), 4),
            )
        host = [row["host_us"] / row["deep_gemm_host_us"] for row in of_kind if "deep_gemm_host_us" in row]
        if host:
            totals[kind]["host"] = round(statistics.median(host), 3)
    return totals


def text(rows: list[dict[str, Any]], failed: list[str], version: str) -> str:
    peers = {row["kind"]: row["torch_op"] for row in rows if row.get("torch_op")}
    lines = [
        "# DeepGEMM's products: its own kernels beside ours",
        "",
        f"`python -m benchmarks.compare.grouped_vs_deepgemm {' '.join(sys.argv[1:])}`; "
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, DeepGEMM {version}. "
        "Measure: warm. A ratio is DeepGEMM's time over ours, torch's where it alone has the product; "
        "TFLOP/s and the "
        "difference (1 - 2xy/(xx+yy), from the product before "
        "quantising) are ours.",
        "",
        *(f"- {kind}: torch is {name}." for kind, name in peers.items()),
        "",
        "| kind | shapes | geomean | least | over torch | over the better | host time, of DeepGEMM's |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {kind} | {each['shapes']} | {each['geomean']:.3f} | {each['least']:.3f} | "
            f"{each.get('torch', '')} | {each.get('better', '')} | {each.get('host', '')} |"
            for kind, each in summary(rows).items()
        ),
        "",
        "| kind | shape | us | DeepGEMM | torch | ratio | TFLOP/s | difference | host us | DeepGEMM's |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['kind']} | {row['shape']} | {row['us']:.1f} | {row['deep_gemm_us'] or ''} | "
            f"{row['torch_us'] or ''} | {row['ratio']:.3f} | {row['tflops']:.0f} | {row['diff']:.1e} | "
            f"{row.get('host_us', '')} | {row.get('deep_gemm_host_us', '')} |"
            for row in rows
        ),
        *(["", "Not measured:", "", *(f"- {failure}" for failure in failed)] if failed else []),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--part", default="1/1", help="I/N: every Nth problem, from the Ith on")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare results alone, and write that")
    parser.add_argument("--checked", type=Path, nargs="+", metavar="FILE", help="of --check: time alone")
    parser.add_argument("--output", type=Path, help="write the page there")
    options = parser.parse_args()
    machine.require_gpu()
    import deep_gemm as theirs  # noqa: PLC0415 (--help works without it)

    part, parts = map(int, options.part.split("/"))
    problems = [problem for kind in options.kinds or KINDS for problem in KINDS[kind]()]
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    checks: dict[str, dict[str, float]] = {}
    for path in options.checked or ():
        checks |= json.loads(path.read_text(encoding="utf-8"))
    for problem in problems[part - 1 :: parts]:
        name = f"{problem.kind} {problem.shape}"
        try:
            if options.check:
                checks[name] = checked(problem, theirs)
                print(name, checks[name], flush=True)
                options.check.write_text(json.dumps(checks), encoding="utf-8")
                continue
            rows.append(measure(problem, theirs, checks.get(name)))
            print({name: value for name, value in rows[-1].items() if value is not None}, flush=True)
        except (TilewrightError, ValueError, RuntimeError) as error:
            failed.append(f"{name}: {str(error).splitlines()[0][:200]}")
            print(failed[-1], flush=True)
        finally:
            torch.cuda.empty_cache()
        if options.output and rows:
            machine.write_page(options.output, text(rows, failed, theirs.__version__))
    print(json.dumps(summary(rows), indent=1))
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
