"""A comparison as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilewright.base.tables import width

if TYPE_CHECKING:
    from tilewright.tools.benchmarking.comparing import Comparison, Side
    from tilewright.tools.tuning.trials import Timing

NOTHING = "-"
# The rates that times are converted to: of multiplying for products, else of moving bytes.
RATES = {"tflops": "TFLOP/s", "gbps": "GB/s"}
Labels = tuple[str, str]


def table(comparisons: Sequence[Comparison], labels: Labels) -> str:
    """The table for people: the columns of the CSV, with tactics without their names' common beginning. If
    a row is wider than `width()`, its tactics go below the problem."""
    best = [
        str(side.best.tactic)
        for comparison in comparisons
        for side in (comparison.a, comparison.b)
        if side.best
    ]
    common = _common_start(best)
    extents, rate = _extents(comparisons), RATES[_rate_name(comparisons)]
    head = [*extents, *(f"{label} {what}" for label in labels for what in ("ms", rate, "tactic")), "speed-up"]
    rows = [head]
    for comparison in comparisons:
        row = [str(getattr(comparison.problem, name)) for name in extents]
        for side in (comparison.a, comparison.b):
            row += _cells(comparison, side, common)
        rows.append([*row, NOTHING if comparison.speedup is None else f"{comparison.speedup:.3f}"])
    tactics = [head.index(f"{label} tactic") for label in labels]
    lines = _aligned(rows, left=set(tactics))
    if max(map(len, lines)) > width():
        numbers = [[cell for place, cell in enumerate(row) if place not in tactics] for row in rows]
        lines = []
        for row, shown in zip(rows, _aligned(numbers, left=set()), strict=True):
            lines.append(shown)
            named = zip(labels, (row[place] for place in tactics), strict=True) if row is not head else ()
            lines += [f"    {label}: {tactic}" for label, tactic in named if tactic != NOTHING]
    if common:
        lines.insert(0, f"Tactics' names go on from {common}")
    return "\n".join([*lines, summary(comparisons, labels)])


def summary(comparisons: Sequence[Comparison], labels: Labels) -> str:
    """The last line of the table."""
    a, b = labels
    speedups = [comparison.speedup for comparison in comparisons if comparison.speedup is not None]
    if not speedups:
        return "No problem was measured on both sides."
    faster = sum(speedup > 1 for speedup in speedups)
    without = len(comparisons) - len(speedups)
    more = f"; {without} without a result on both sides" if without else ""
    return (
        f"Speed-up of {a} over {b} ({b}'s time over {a}'s): geomean {geomean(speedups):.3f}; "
        f"{a} is faster on {faster} of {len(speedups)}{more}"
    )


def geomean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def notes(comparisons: Sequence[Comparison], labels: Labels, tactics: bool) -> Iterator[str]:
    """Lines about each problem: on request every tactic, the fastest first; always the tactics that failed,
    and why a side has no result."""
    for comparison in comparisons:
        lines = []
        for label, side in zip(labels, (comparison.a, comparison.b), strict=True):
            if side.reason:
                lines.append(f"  {label}: no result: {_one_line(side.reason)}")
            for timing in sorted(side.timings, key=_fastest_first):
                if timing.seconds is None:
                    wrong = "WRONG" if timing.wrong else "failed"
                    lines.append(f"  {label}: {wrong}  {timing.tactic}: {_one_line(timing.failure or '')}")
                elif tactics:
                    rate = f"{_rate(comparison, timing):9.1f} {RATES[_rate_name([comparison])]}"
                    speed = f"{timing.seconds * 1e3:10.4f} ms {rate}"
                    lines.append(f"  {label}: {speed}  {timing.tactic}")
            if tactics and side.pruned:
                lines.append(f"  {label}: {side.pruned} more tactics were left out by the cost model")
        if lines:
            yield "x".join(str(getattr(comparison.problem, name)) for name in _extents([comparison])) + ":"
            yield from lines


# What the beginning of a table, and of a record, holds.
CSV_MARK = re.compile(rb"\A[mnk](?:,[mnk])*,[^\n]*_tactic,speedup\n")
RECORD_MARK = re.compile(rb'"tilewright": "')


def as_csv(comparisons: Sequence[Comparison], labels: Labels) -> str:
    """m,n,k, then ms, tflops and tactic of each group, and speedup; for problems that are not products m,k
    and gbps. Cells without a result are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    extents, rate = _extents(comparisons), _rate_name(comparisons)
    columns = [f"{label}_{what}" for label in labels for what in ("ms", rate, "tactic")]
    writer.writerow([*extents, *columns, "speedup"])
    for comparison in comparisons:
        cells: list[Any] = [getattr(comparison.problem, name) for name in extents]
        for side in (comparison.a, comparison.b):
            best = _best(comparison, side)
            cells += ["", "", ""] if best is None else [best["ms"], best[rate], best["tactic"]]
        writer.writerow([*cells, "" if comparison.speedup is None else round(comparison.speedup, 4)])
    return out.getvalue()


def as_json(
    comparisons: Sequence[Comparison], labels: Labels, head: dict[str, Any], tactics: bool
) -> dict[str, Any]:
    """The whole record: `head`, then the problems with both sides and, on request, their tactics."""
    speedups = [comparison.speedup for comparison in comparisons if comparison.speedup is not None]
    return head | {
        "speedup": f"{labels[1]}'s time over {labels[0]}'s",
        "geomean": geomean(speedups) if speedups else None,
        "problems": [
            {"problem": asdict(comparison.problem)}
            | {
                label: _side(comparison, side, tactics)
                for label, side in zip("ab", (comparison.a, comparison.b), strict=True)
            }
            | {"speedup": comparison.speedup}
            for comparison in comparisons
        ],
    }


def _side(comparison: Comparison, side: Side, tactics: bool) -> dict[str, Any]:
    failed = [
        {"tactic": str(timing.tactic), "reason": timing.failure, "wrong": timing.wrong}
        for timing in side.failures
    ]
    answer: dict[str, Any] = {"best": _best(comparison, side), "tried": len(side.timings)}
    answer |= {"pruned": side.pruned, "failed": failed, "reason": side.reason}
    if tactics:
        ranked = sorted(side.timings, key=_fastest_first)
        answer["tactics"] = [_timing(comparison, timing) for timing in ranked if timing.seconds is not None]
    return answer


def _best(comparison: Comparison, side: Side) -> dict[str, Any] | None:
    return None if side.best is None else _timing(comparison, side.best)


def _timing(comparison: Comparison, timing: Timing) -> dict[str, Any]:
    return {
        "ms": round((timing.seconds or 0.0) * 1e3, 6),
        _rate_name([comparison]): round(_rate(comparison, timing), 3),
        "tactic": str(timing.tactic),
    }


def _extents(comparisons: Sequence[Comparison]) -> list[str]:
    """The names among m, n and k that all problems have."""
    return [name for name in "mnk" if all(hasattr(comparison.problem, name) for comparison in comparisons)]


def _rate_name(comparisons: Sequence[Comparison]) -> str:
    return "tflops" if all(hasattr(comparison.problem, "flops") for comparison in comparisons) else "gbps"


def _rate(comparison: Comparison, timing: Timing) -> float:
    problem, seconds = comparison.problem, timing.seconds or math.inf
    return float(
        problem.flops / seconds * 1e-12 if hasattr(problem, "flops") else problem.bytes / seconds * 1e-9
    )


def _fastest_first(timing: Timing) -> tuple[float, str]:
    return (math.inf if timing.seconds is None else timing.seconds, str(timing.tactic))


def _cells(comparison: Comparison, side: Side, common: str) -> list[str]:
    best = side.best
    if best is None or best.seconds is None:
        return [NOTHING] * 3
    name = str(best.tactic).removeprefix(common)
    return [f"{best.seconds * 1e3:.4f}", f"{_rate(comparison, best):.1f}", name]


def _common_start(names: Sequence[str]) -> str:
    """The common beginning of all names, up to an underscore; "" if there is only one name."""
    if len(set(names)) < 2:
        return ""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    common = "".join(letters[0] for letters in alike)
    return common[: common.rfind("_") + 1]


def _aligned(rows: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Rows as columns that line up: numbers to the right, tactics to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
