"""Host time of a call of `tilewright.gemm`, on a kernel of the host, beside that of another revision.

    python -m benchmarks.host.host_calls [REVISION] [--rounds N]

Each tree runs in a process of its own, with the kernels that its tests build
(`tests/runtime/host_modules.py`), on a product of 1x8x8, so that the kernel takes no time. The processes take
turns, round by round; printed is the least of all rounds, and what this tree takes of the other's. No GPU is
used: what a launch costs there comes on top (`host_overhead.py`).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BASE = "0cd8dee2"  # before one emitter wrote all Python of calls
CALLS = 2000  # a round


def host_operands(stack: ExitStack) -> tuple[Any, Any, Any]:
    """A, B and D of a product, on a context of `stack` with kernels of the host. The tree is on sys.path."""
    import host_modules  # noqa: PLC0415 (each tree has its own)
    import torch  # noqa: PLC0415

    from tilewright import context as contexts  # noqa: PLC0415
    from tilewright.architectures.device import H200  # noqa: PLC0415
    from tilewright.libraries.registry import Registry  # noqa: PLC0415

    torch.set_num_threads(1)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright_host_calls_")))
    library = host_modules.build_host_library(folder, "gemm", host_modules.HOST_ROWS, "host_kernels.cc")
    host_modules.write_table(folder / "generated", "host_gemm", host_modules.HOST_ROWS)
    built = host_modules.Built(library, ("host_absent",))
    registry = Registry(folder / "generated", libraries=lambda module: [built])
    stack.enter_context(contexts.use(contexts.Context(registry, described=H200)))
    a, b = torch.randn(1, 8).bfloat16(), torch.randn(8, 8).bfloat16().t()
    return a, b, torch.empty(1, 8, dtype=torch.bfloat16)


def measured(stack: ExitStack) -> dict[str, Callable[[], float]]:
    """Functions that return the seconds of a round of calls, by what they call in the tree on sys.path."""
    a, b, out = host_operands(stack)
    import tilewright  # noqa: PLC0415

    gemm, plan = tilewright.gemm, tilewright.plan(tilewright.gemm, a, b, out=out)

    def writes() -> float:
        start = time.perf_counter()
        for _ in repeat(None, CALLS):
            gemm(a, b, out=out)
        return time.perf_counter() - start

    def makes() -> float:
        start = time.perf_counter()
        for _ in repeat(None, CALLS):
            gemm(a, b)
        return time.perf_counter() - start

    def prepared() -> float:
        start = time.perf_counter()
        for _ in repeat(None, CALLS):
            plan(a, b, out)
        return time.perf_counter() - start

    return {"gemm(a, b, out=out)": writes, "gemm(a, b)": makes, "plan(a, b, out)": prepared}


def work() -> None:
    """Answers each line of stdin with a round, as JSON."""
    with ExitStack() as stack:
        rounds = measured(stack)
        for _ in sys.stdin:
            print(json.dumps({name: call() / CALLS * 1e6 for name, call in rounds.items()}), flush=True)


def start(tree: Path) -> subprocess.Popen[str]:
    """A process of a tree."""
    path = os.pathsep.join(
        str(tree / package) for package in ("runtime", "generator", "tests/runtime", "tests/common")
    )
    environment = os.environ | {"PYTHONPATH": path, "TILEWRIGHT_JIT": "0", "TILEWRIGHT_TUNED": ""}
    command = [sys.executable, __file__, "--work"]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def least(process: subprocess.Popen[str], so_far: dict[str, float]) -> dict[str, float]:
    """The least microseconds of a further round and of those before."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    times: dict[str, float] = json.loads(process.stdout.readline())
    return {name: min(value, so_far.get(name, value)) for name, value in times.items()}


def compared(revision: str, rounds: int) -> str:
    """The times as a Markdown table."""
    folders = ["runtime", "generator", "tests/runtime", "tests/common", "templates"]
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, *folders],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        trees = [start(Path(folder)), start(ROOT)]
        before: dict[str, float] = {}
        now: dict[str, float] = {}
        for _ in range(rounds):
            before, now = least(trees[0], before), least(trees[1], now)
        for process in trees:
            process.communicate()
    lines = [f"| microseconds of the host | at {revision} | now | ratio |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {value:.2f} | {now[name]:.2f} | {now[name] / value:.2f} |"
        for name, value in before.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BASE, help=f"to compare with; default {BASE}")
    parser.add_argument("--rounds", type=int, default=60, help="samples of each call by each side")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
    else:
        print(compared(arguments.revision, arguments.rounds))
