"""Runs DeepGEMM's own tests against `tilewright.compat.deep_gemm`, and says which pass.

    python -m benchmarks.compare.deepgemm_tests DEEPGEMM/tests [test_bf16.test_gemm ...] [--profile]
        [--output FILE] [--part 2/4 [--after 30]] [--seconds N]

The tests are read from a checkout of DeepGEMM and are not part of this repository. Without `--profile`
nothing is timed (DG_USE_NVIDIA_TOOLS=1), which leaves what they assert.

Its tests of MQA logits go through a list of cases (`sample_mqa_cases`), for minutes: the table says how many
of them a test has passed. `--part I/N` is every N-th of them, in an order of chance that is always the same,
so that N processes beside each other take all of them; `--after` leaves out the first ones of a part; with
`--seconds` no case is begun later than that.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine

from tilewright.compat import deep_gemm

MODULES = (
    "test_bf16",
    "test_fp8_fp4",
    "test_einsum",
    "test_layout",
    "test_hyperconnection",
    "test_attention",
    "test_legacy",
)


@dataclass
class Cases:
    """Which cases a test of many takes, and how many it has passed."""

    part: int = 1
    parts: int = 1
    after: int = 0
    seconds: float = float("inf")
    passed: int = 0
    taken: int = 0
    all: int = 0

    def take(self, name: str, cases: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Gives this part's cases to a test, which calls it in place of `sample_mqa_cases`."""
        mine = random.Random(0).sample(cases, len(cases))[self.part - 1 :: self.parts][self.after :]
        self.passed, self.taken, self.all = 0, len(mine), len(cases)
        started = time.perf_counter()
        for case in mine:
            if time.perf_counter() - started > self.seconds:
                return
            yield case
            torch.cuda.synchronize()
            self.passed += 1
            print(f"{name} {self.passed}/{self.taken}: {case}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Outcome:
    test: str
    calls: int  # of functions of the interface
    seconds: float
    error: str  # empty: passed
    cases: str = ""

    def __str__(self) -> str:
        return f"| {self.test} | {self.calls} | {self.seconds:.1f} | {self.error or 'passed'}{self.cases} |"


def counted(calls: Counter[str]) -> None:
    """Counts the calls of every function of the interface that a test makes through the package."""

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        return count

    for name in deep_gemm.__all__:
        function = getattr(deep_gemm, name)
        if callable(function) and any(part in name for part in ("gemm", "einsum", "mqa")):
            setattr(deep_gemm, name, wrap(name, function))


def tests(folder: Path, names: list[str], cases: Cases) -> dict[str, Callable[[], None]]:
    """The test functions of the folder's modules, or those that are named, by module and name."""
    sys.path.insert(0, str(folder))
    functions = {}
    for module in MODULES:
        if (folder / f"{module}.py").exists():
            imported = importlib.import_module(module)
            if hasattr(imported, "sample_mqa_cases"):
                imported.sample_mqa_cases = cases.take  # type: ignore[attr-defined]
            own = [name for name in vars(imported) if name.startswith("test_") and name != "test_filter"]
            functions |= {f"{module}.{name}": getattr(imported, name) for name in own}
    return {name: functions[name] for name in names} if names else functions


def run(name: str, test: Callable[[], None], calls: Counter[str], cases: Cases) -> Outcome:
    before, started, error = calls.total(), time.perf_counter(), ""
    torch.manual_seed(0)
    random.seed(0)
    cases.all = 0
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            test()
        if "left out on this GPU" in printed.getvalue():
            error = "left out on this GPU by the test"
    except Exception as raised:  # whatever it is, it is what is reported
        traceback.print_exc()
        error = f"{type(raised).__name__}: {str(raised).splitlines()[0] if str(raised) else ''}"[:200]
    torch.cuda.synchronize()
    after = f" after {cases.after}" if cases.after else ""
    part = f"; part {cases.part} of {cases.parts}{after}" if cases.parts > 1 else ""
    passed = f": {cases.passed} of {cases.taken} cases{part} of all {cases.all}" if cases.all else ""
    return Outcome(name, calls.total() - before, time.perf_counter() - started, error, passed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="tests/ of a clone of DeepGEMM")
    parser.add_argument("tests", nargs="*", help="names of its tests; default: all")
    parser.add_argument(
        "--profile", action="store_true", help="take times by its profiler, instead of by graphs"
    )
    parser.add_argument("--output", type=Path, help="write the page there")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th case of tests that have many")
    parser.add_argument("--after", type=int, default=0, help="number of cases of the part to leave out first")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case is begun later")
    options = parser.parse_args()
    machine.require_gpu()
    if not options.profile:
        os.environ["DG_USE_NVIDIA_TOOLS"] = "1"
    deep_gemm.install()
    part, parts = map(int, options.part.split("/"))
    cases = Cases(part, parts, options.after, options.seconds)
    calls: Counter[str] = Counter()
    counted(calls)
    lines = [
        "# DeepGEMM's own tests against tilewright.compat.deep_gemm",
        "",
        f"`python -m benchmarks.compare.deepgemm_tests {' '.join(sys.argv[1:])}`; "
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}.",
        "",
        "| test | calls | seconds | |",
        "|---|---|---|---|",
    ]
    outcomes = []
    for name, test in tests(options.folder, options.tests, cases).items():
        outcomes.append(run(name, test, calls, cases))
        print(outcomes[-1], flush=True)
        if options.output:
            text = "\n".join([*lines, *map(str, outcomes)])
            options.output.write_text(text + "\n", encoding="utf-8", newline="\n")
    return 1 if any(each.error and "left out" not in each.error for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
