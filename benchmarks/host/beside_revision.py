"""Processor time of commands, imports and calls beside another revision: nothing may have become slower.

    python -m benchmarks.host.beside_revision [REVISION] [--rounds N] [--write]

It times `generate` from nothing and again, and `check`, of a spec with 1,976 kernels; `import tilewright`;
the first lookup of a problem among those kernels (`selection.py`); and calls and prepared calls on kernels
of the host (`host_calls.py`). The two trees take turns, and the tree that begins changes with each round.
Each run is a process of its own, whose bytecode has been written before. The time is the user and system
time of the process and its children, because the wall clock also shows what else the machine does. The
result is the least of all rounds, and the ratio of the two trees. The middle half of the rounds' ratios
shows how reliable the result is. No GPU is used.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.host import host_calls, selection
from benchmarks.host.generation import MEMORY
from benchmarks.lib.machine import describe, run, write_page

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks/results/beside_revision"
BASE = "9323f2f4"  # the first revision with these folders
SPEC = Path(__file__).parents[1] / "specs/sm90_gemm_2000.yaml"
LIMIT = 1.05
CLI = "from tilewright_generator.cli import main; main()"
PROJECT = """
import sys, pathlib
from benchmarks.host import selection
selection.project(pathlib.Path(sys.argv[1]))
"""

Measured = dict[str, float]  # milliseconds, of calls microseconds, by what is measured


class Tree:
    """A revision, and what is generated with it."""

    def __init__(self, code: Path, folder: Path) -> None:
        self.code, self.folder = code, folder
        self.lookups = folder / "lookups"
        self.lookups.mkdir(parents=True)
        paths = [str(code / package) for package in ("runtime", "generator", ".")]
        self.environment = {
            "PYTHONPATH": os.pathsep.join(paths), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "", "TILEWRIGHT_TUNED": "",
            "TILEWRIGHT_CACHE": str(self.lookups / "cache"),
        }  # fmt: skip
        self._run("-c", PROJECT, str(self.lookups))
        self.standard: list[str] = self._lookup([])["standard"]
        self.calls = host_calls.start(code)

    def _run(self, *arguments: str) -> tuple[float, str]:
        done = run([sys.executable, *arguments], environment=self.environment)
        return done.cpu_seconds * 1e3, done.output

    def _lookup(self, imported: list[str]) -> dict[str, Any]:
        _, output = self._run("-c", selection.CHILD, str(self.lookups / "generated"), ",".join(imported))
        times: dict[str, Any] = json.loads(output)
        return times

    def measure(self) -> Measured:
        """One round."""
        project = self.folder / "project"
        shutil.rmtree(project, ignore_errors=True)
        (project / "specs").mkdir(parents=True)
        shutil.copy(SPEC, project / "specs")
        commands = {"generate, from nothing": "generate", "generate, again": "generate", "check": "check"}
        times = {
            name: self._run("-c", CLI, command, "--root", str(project))[0]
            for name, command in commands.items()
        }
        times["import tilewright"] = self._run("-c", "import tilewright")[0]
        for name, imported in (("", []), (", standard library imported", self.standard)):
            times[f"first lookup{name}"] = self._lookup(imported)["first_lookup_processor_ms"]
        return times | host_calls.least(self.calls, {})


def compared(revision: str, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The measurements of each round: those of the revision, and those of this tree."""
    before: dict[str, list[float]] = {}
    now: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        trees = [Tree(unpacked(revision, folder / "code"), folder / "before"), Tree(ROOT, folder / "now")]
        pairs = [*zip(trees, (before, now), strict=True)]
        for turn in range(-1, rounds):  # the first round writes bytecode
            for tree, kept in pairs if turn % 2 else reversed(pairs):
                for what, value in tree.measure().items():
                    if turn >= 0:
                        kept.setdefault(what, []).append(value)
        for tree in trees:
            tree.calls.communicate()
    return before, now


def unpacked(revision: str, folder: Path) -> Path:
    """The tree of a revision."""
    folders = ("runtime", "generator", "templates", "tests/runtime", "tests/common", "benchmarks")
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, *folders], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def rows(before: dict[str, list[float]], now: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The least of all rounds, their ratio, and the middle half of the rounds' ratios."""
    table = []
    for what, old in before.items():
        ratios = [new / earlier for new, earlier in zip(now[what], old, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        least, now_least = min(old), min(now[what])
        numbers = {"before": least, "now": now_least, "ratio": now_least / least, "low": low, "high": high}
        table.append({"what": what, **{name: round(value, 3) for name, value in numbers.items()}})
    return table


def page(result: dict[str, Any]) -> str:
    lines = [
        f"# Processor time beside {result['revision']}", "",
        f"{result['date']}, {result['processor']}, {result['cores']} cores, Python {result['python']}; the "
        f"least of {result['rounds']} rounds in turns. Milliseconds, of calls microseconds.", "",
        f"Made by `{result['command']}`.", "",
        "| what | before | now | ratio | middle half of the rounds' ratios |", "|---|---|---|---|---|",
    ]  # fmt: skip
    name: Callable[[str], str] = lambda what: f"`{what}`" if "(" in what else what  # noqa: E731
    lines += [
        f"| {name(row['what'])} | {row['before']:.2f} | {row['now']:.2f} | {row['ratio']:.2f} | "
        f"{row['low']:.2f} to {row['high']:.2f} |"
        for row in result["rows"]
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BASE, help=f"to compare with; default {BASE}")
    parser.add_argument("--rounds", type=int, default=11, help="runs of each command by each side")
    parser.add_argument("--write", action="store_true", help="record in benchmarks/results/")
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "command": f"python -m benchmarks.host.beside_revision --rounds {arguments.rounds} --write",
        "revision": arguments.revision,
        "rounds": arguments.rounds,
        **describe("tilewright", "jinja2", "pyyaml", "click"),
        "rows": rows(*compared(arguments.revision, arguments.rounds)),
    }
    print(page(result))
    if arguments.write:
        write_page(RESULT, page(result))
    slower = [row["what"] for row in result["rows"] if row["ratio"] > LIMIT]
    if slower:
        print(f"more than {LIMIT} of before: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
