"""Runs DeepGEMM's own tests against `tilewright.compat.deep_gemm`, and says which pass.

    python benchmarks/deepgemm_tests.py DEEPGEMM/tests [test_bf16.test_gemm ...] [--profile] [--output FILE]

The tests are read from a checkout of DeepGEMM and are not part of this repository. Without `--profile`
nothing is timed (DG_USE_NVIDIA_TOOLS=1), which leaves what they assert.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tilewright.compat import deep_gemm

MODULES = (
    "test_bf16",
    "test_fp8_fp4",
    "test_einsum",
    "test_layout",
    "test_hyperconnection",
    "test_attention",
)


@dataclass(frozen=True)
class Outcome:
    test: str
    calls: int  # of functions of the interface
    seconds: float
    error: str  # empty: passed

    def __str__(self) -> str:
        return f"| {self.test} | {self.calls} | {self.seconds:.1f} | {self.error or 'passed'} |"


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


def tests(folder: Path, wanted: list[str]) -> dict[str, Callable[[], None]]:
    """The test functions of the folder's modules, or those that are named, by module and name."""
    sys.path.insert(0, str(folder))
    found = {}
    for module in MODULES:
        if (folder / f"{module}.py").exists():
            imported = importlib.import_module(module)
            names = [name for name in vars(imported) if name.startswith("test_") and name != "test_filter"]
            found |= {f"{module}.{name}": getattr(imported, name) for name in names}
    return {name: found[name] for name in wanted} if wanted else found


def run(name: str, test: Callable[[], None], calls: Counter[str]) -> Outcome:
    before, started, error = calls.total(), time.perf_counter(), ""
    torch.manual_seed(0)
    random.seed(0)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            test()
        if "left out on this GPU" in printed.getvalue():
            error = "left out on this GPU by the test"
    except Exception as raised:  # whatever it is, it is what is reported
        traceback.print_exc()
        error = f"{type(raised).__name__}: {str(raised).splitlines()[0] if str(raised) else ''}"[:200]
    torch.cuda.synchronize()
    return Outcome(name, calls.total() - before, time.perf_counter() - started, error)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if not given.profile:
        os.environ["DG_USE_NVIDIA_TOOLS"] = "1"
    deep_gemm.install()
    calls: Counter[str] = Counter()
    counted(calls)
    lines = [
        "# DeepGEMM's own tests against tilewright.compat.deep_gemm",
        "",
        f"`python benchmarks/deepgemm_tests.py {' '.join(sys.argv[1:])}`; {torch.cuda.get_device_name()}, "
        f"torch {torch.__version__}.",
        "",
        "| test | calls | seconds | |",
        "|---|---|---|---|",
    ]
    outcomes = []
    for name, test in tests(given.folder, given.tests).items():
        outcomes.append(run(name, test, calls))
        print(outcomes[-1], flush=True)
        if given.output:
            text = "\n".join([*lines, *map(str, outcomes)])
            given.output.write_text(text + "\n", encoding="utf-8", newline="\n")
    return 1 if any(each.error and "left out" not in each.error for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
