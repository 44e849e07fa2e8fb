"""Ratios of times (the peer's time over ours) and what a record says of a list of them. Needs no torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

CLOSE = 0.95  # a ratio at which a problem counts as no loss
# Half of an interval's ranks, over the root of the number of rounds. The interval of many rounds covers the
# true median in 98 % of cases if their number is fixed, and in about 95 % if rounds end as soon as the
# interval is short (by simulation).
RANKS = 1.15


def net_microseconds(total_seconds: float, between_seconds: float) -> float:
    """The time of a launch: the time of a launch with other kernels before it, less the time of those.

    Raises ValueError if nothing is left: the measurement is then noise.
    """
    net = total_seconds - between_seconds
    if not net > 0:
        raise ValueError(
            f"a launch with other kernels took {total_seconds * 1e6:.2f} us, "
            f"those alone {between_seconds * 1e6:.2f} us"
        )
    return round(net * 1e6, 3)


def of_rounds(peer: Sequence[float], own: Sequence[float]) -> tuple[float, float]:
    """The median of the rounds' ratios, and its error: half of an interval around the true median.

    Both times of a ratio are of one round, so that what slows a whole round does not count. The interval lies
    between two of the ordered ratios, as that of a sign test, so it holds for any distribution. It covers the
    true median in 96 % of cases for twelve rounds, and in 87 % for four.
    """
    ordered = sorted(of_peer / of_own for of_peer, of_own in zip(peer, own, strict=True))
    count = len(ordered)
    beyond = max(0, int(count / 2 - RANKS * math.sqrt(count)))  # ratios on each side of the interval
    return statistics.median(ordered), (ordered[count - 1 - beyond] - ordered[beyond]) / 2


def summary(ratios: Sequence[float], errors: Sequence[float] = ()) -> dict[str, Any]:
    """Count, geometric mean, least, and the shares at 0.95 and at 1; with errors, also the share of ratios
    that may lie on either side of 0.95."""
    unsure = [abs(ratio - CLOSE) <= error for ratio, error in zip(ratios, errors, strict=bool(errors))]
    return {
        "count": len(ratios),
        "geomean": round(statistics.geometric_mean(ratios), 4),
        "least": round(min(ratios), 4),
        "share at 0.95": share(ratios, CLOSE),
        "share at 1": share(ratios, 1.0),
        **({"unsure at 0.95": round(statistics.fmean(unsure), 3)} if unsure else {}),
    }


def share(ratios: Sequence[float], least: float) -> float:
    """The share of ratios that are at least `least`."""
    return round(sum(ratio >= least for ratio in ratios) / len(ratios), 3)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a Markdown table. Floats have three decimals; None is an empty cell."""
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return [*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)]


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def summaries(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """A summary of the ratios of all rows that agree in `keys`, with those keys, in the order of the rows.
    Either all rows of a summary have an error, or none."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, values, strict=True))
        | summary([row["ratio"] for row in group], [row["error"] for row in group if "error" in row])
        for values, group in groups.items()
    ]


def summary_table(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[str]:
    """The lines of a Markdown table with a summary of each group of rows that agree in `keys`."""
    columns = (*keys, "problems", "mean ratio", "worst", "at 1 or more")
    names = (*keys, "count", "geomean", "least", "share at 1")
    return table(columns, [[group[name] for name in names] for group in summaries(rows, keys)])


def part_of(text: str) -> tuple[int, int]:
    """(I, N) of the text `I/N`: every Nth item, starting at the Ith. Raises ValueError if it is no part."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(f"expected I/N with 1 <= I <= N, got {text!r}")
    return part, parts
