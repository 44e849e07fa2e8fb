"""Programs that measure problems of packed weights one after another beside Humming, which compiles first."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.lib import machine, ratios

P = TypeVar("P")
Row = dict[str, Any]


def add_options(parser: argparse.ArgumentParser, seconds: float = math.inf) -> None:
    """The options that `run` reads."""
    parser.add_argument("--output", type=Path, required=True, help="the page, without its extension")
    parser.add_argument("--seconds", type=float, default=seconds, help="start no problem after this time")
    parser.add_argument("--compile", action="store_true", help="compile Humming's kernels and time nothing")
    parser.add_argument("--part", type=ratios.part_of, default=(1, 1), help="I/N: every Nth problem")


def run(
    module: str,
    options: argparse.Namespace,
    problems: Sequence[P],
    *,
    compile_peer: Callable[[P], None],
    measure: Callable[[P], Row],
    markdown: Callable[[dict[str, str], list[Row]], Iterator[str]],
    keep_rows: bool = False,
) -> None:
    """Measures this part's problems, and writes the page after each; with `keep_rows` also OUTPUT.json."""
    machine.require_gpu()
    begin, (part, parts) = time.monotonic(), options.part
    head = machine.gpu_run(module) | {"humming": humming_release()}
    rows: list[Row] = []
    for problem in problems[part - 1 :: parts]:
        if time.monotonic() - begin > options.seconds:
            break
        if options.compile:
            compile_peer(problem)
            continue
        rows.append(measure(problem))
        lines = list(markdown(head, rows))
        print(lines[-1], flush=True)
        machine.write_page(options.output, "\n".join(lines) + "\n")
        if keep_rows:
            machine.write_rows(options.output, head, rows)


def humming_release() -> str:
    """The release of Humming that is installed."""
    return str(machine.describe("humming-kernels")["humming-kernels"])


def preface(head: dict[str, str]) -> str:
    """What ran where, and how: the first sentences of a page."""
    return (
        f"`{head['command']}`; {head['gpu']}, driver {head['driver']}, torch {head['torch']}, "
        f"Humming {head['humming']}, {head['date']}. Microseconds of a launch with a cold L2, sides in turn, "
        "medians. A ratio is the peer's time over ours."
    )


def peer_cells(seconds: float, peers: Sequence[float | None]) -> list[str]:
    """The cells of a problem's line with the peers' microseconds, then their times over `seconds`."""
    return [
        *("" if time is None else f"{time * 1e6:.1f}" for time in peers),
        *("" if time is None else f"{time / seconds:.3f}" for time in peers),
    ]
