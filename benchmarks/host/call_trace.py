"""How a call of `tilewright.gemm` goes through the runtime's files: the first call, the second and the third.

    python -m benchmarks.host.call_trace [--files] [--tree FOLDER]

The kernel is one of the host, as tests build it, so that no GPU is used. Every entry into a function of
`runtime/tilewright` is an event. The Python that is written out for an op counts as a file. A *move* is an
event in another file than the event before. Bodies of modules and classes do not count: an import is no step
of a call. Counts do not depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from contextlib import ExitStack
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CALLS = ("first", "second", "third")


class Trace(NamedTuple):
    """The functions that a call enters, in order."""

    codes: list[CodeType]

    @property
    def files(self) -> Counter[str]:
        """Events by file."""
        return Counter(code.co_filename for code in self.codes)

    @property
    def moves(self) -> int:
        names = [code.co_filename for code in self.codes]
        return sum(before != after for before, after in zip([None, *names], names, strict=False))


def traced(call: Any, package: Path) -> Trace:
    """The events of `call()` in functions of a package, and of what it writes out (`<tilewright.gemm>`)."""
    codes: list[CodeType] = []
    starts = (str(package), "<tilewright.")

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(starts) and code.co_flags & CO_OPTIMIZED:
            codes.append(code)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Trace(codes)


def traces(tree: Path) -> list[Trace]:
    """The traces of the first calls of a tree."""
    sys.path[:0] = [str(tree / name) for name in ("runtime", "generator", "tests/runtime", "tests/common")]
    os.environ |= {"TILEWRIGHT_JIT": "0", "TILEWRIGHT_TUNED": ""}
    with ExitStack() as stack:
        from benchmarks.host.host_calls import host_operands  # noqa: PLC0415 (after the tree is on sys.path)

        a, b, _ = host_operands(stack)
        import tilewright  # noqa: PLC0415

        gemm = tilewright.gemm
        return [traced(lambda: gemm(a, b), tree / "runtime/tilewright") for _ in CALLS]


def table(paths: list[Trace]) -> str:
    """The counts as a Markdown table."""
    lines = ["| call | files | functions | events | moves |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {len(trace.files)} | {len(set(trace.codes))} | {len(trace.codes)} | {trace.moves} |"
        for name, trace in zip(CALLS, paths, strict=True)
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout; default: this one")
    parser.add_argument("--files", action="store_true", help="also print the first call's events by file")
    arguments = parser.parse_args()
    paths = traces(arguments.tree.resolve())
    print(table(paths))
    if arguments.files:
        for file, events in paths[0].files.most_common():
            print(f"{events:5} {file}")
