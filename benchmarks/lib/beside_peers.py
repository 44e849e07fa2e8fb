"""Programs that measure problems one after another beside a peer whose kernels are compiled first."""

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
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=seconds, help="begin no problem after this time")
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
) -> None:
    """Measures this part's problems, and writes the page after each."""
    begun, (part, parts) = time.monotonic(), options.part
    head, rows = machine.gpu_run(module), list[Row]()
    for problem in problems[part - 1 :: parts]:
        if time.monotonic() - begun > options.seconds:
            break
        if options.compile:
            compile_peer(problem)
            continue
        rows.append(measure(problem))
        lines = list(markdown(head, rows))
        print(lines[-1], flush=True)
        machine.write_page(options.output, "\n".join(lines) + "\n")
