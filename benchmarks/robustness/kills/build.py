"""Kills `tilewright build` again and again, and looks at what is left.

    python -m benchmarks.robustness.kills.build [--kills 20] [--seed N] [--write]

Each run has two small kernels to compile and a library to link, in a cache that holds the object of table.cc
alone. It is killed, with all that it has started, at a random moment: half of the time anywhere, else after a
compiler has begun; three times in four by SIGKILL, else by SIGTERM. Then one source changes, and the same
command must recover: it exits with 0, no entry of the cache is broken, and objects and library are, to the
byte, those of a cache in which no build was ever killed.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "build"))

from benchmarks.robustness.kills.common import SIGNALS, kill, main, messages
from small_modules import Mini

from tilewright.compile.library import libraries
from tilewright.compile.store import Store
from tilewright.errors import BuildError

BUILD = (sys.executable, "-c", "from tilewright_generator.cli import main; main()", "build", "--jobs", "2")
KERNELS = ("one", "two")
_NUMBERS = (1, 2)  # what a kernel's source may say


class Project:
    """A module whose sources change, and a cache in which no build is killed."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.clean = folder / "clean"
        self.seed = folder / "seed"
        self._chance = chance
        self._numbers = dict.fromkeys(KERNELS, _NUMBERS[0])
        self._mini = Mini(folder / "generated")
        (folder / "specs").mkdir()
        self._write()
        code, output = self.build(self.clean)
        if code != 0:
            raise RuntimeError(output)
        store = Store(self.clean)
        shutil.copytree(self.clean, self.seed)
        for path in Store(self.seed).listed("objects"):
            if store.read_entry(path.name).report["kind"] == "kernel":
                shutil.rmtree(path)
        shutil.rmtree(self.seed / "libraries")

    def change(self) -> None:
        """Changes one of the sources."""
        kernel = self._chance.choice(KERNELS)
        self._numbers[kernel] = self._chance.choice([n for n in _NUMBERS if n != self._numbers[kernel]])
        self._write()

    def _write(self) -> None:
        for kernel, number in self._numbers.items():
            self._mini.add(kernel, number=number)
        self._mini.table()

    def build(self, cache: Path) -> tuple[int, str]:
        done = subprocess.run(self.command(cache), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def command(self, cache: Path) -> list[str]:
        return [*BUILD, "--root", str(self.folder), "--cache", str(cache)]


def built_files(cache: Path) -> dict[str, bytes]:
    """The newest library, and the objects that it was linked of."""
    linked = libraries("mini", store=Store(cache))
    if not linked:
        return {}
    keys = {kernel["object"] for kernel in linked[0].kernels.values()}
    paths = [linked[0].path, *(cache / "objects" / key / "kernel.o" for key in keys)]
    return {path.relative_to(cache).as_posix(): path.read_bytes() for path in paths}


def broken(cache: Path) -> list[str]:
    """The entries that are not what they say."""
    store, faults = Store(cache), []
    for path in store.listed("objects"):
        try:
            store.read_entry(path.name)
        except BuildError as error:
            faults.append(error.message)
    return faults


def kill_once(
    project: Project, cache: Path, moment: float, compiling: bool, by: signal.Signals
) -> dict[str, Any]:
    """Kills a run `moment` seconds after it has started, or after a compiler has begun."""
    ready = (lambda: any((cache / "tmp").glob("*/scratch"))) if compiling else (lambda: True)
    killed = kill(project.command(cache), moment, ready=ready, by=by)
    return {
        "signal": by.name,
        "after": "a compiler's start" if compiling else "the start",
        "seconds": round(moment, 3),
        "ended_before": killed.exit_code,
        "drafts": len(list((cache / "tmp").glob("*"))),
        "compiled": len(list((cache / "objects").glob("*/report.json"))) - 1,  # without table.cc
    }


def recover(project: Project, cache: Path) -> dict[str, Any]:
    """Runs the same command on what the kill has left, and compares with a build that nothing killed."""
    code, output = project.build(cache)
    project.build(project.clean)
    equal = bool(built_files(cache)) and built_files(cache) == built_files(project.clean)
    faults = broken(cache)
    well = code == 0 and equal and not faults
    return {
        "exit_code": code,
        "equal": equal,
        "broken": faults,
        "messages": messages(output, ok=well),
    }


def is_well(row: dict[str, Any]) -> bool:
    return row["exit_code"] == 0 and row["equal"] and not row["broken"]


def hammer(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kills `kills` runs. `ok`: what each left has been recovered."""
    chance = random.Random(seed)
    project = Project(folder, chance)
    cache = folder / "cache"
    shutil.copytree(project.seed, cache)
    started = time.perf_counter()
    project.build(cache)
    run = time.perf_counter() - started
    rows: list[dict[str, Any]] = []
    while (killed := sum(row["ended_before"] is None for row in rows)) < kills:
        cache.rename(folder / f"left-{len(rows)}")  # a compiler that outlived the kill may still write there
        shutil.copytree(project.seed, cache)
        compiling = bool(killed % 2)
        moment = chance.uniform(0, run / 2 if compiling else run)
        row = kill_once(project, cache, moment, compiling, chance.choice(SIGNALS))
        project.change()
        rows.append(row | recover(project, cache))
        print(json.dumps(rows[-1]), flush=True)
    return {
        "kills": sum(row["ended_before"] is None for row in rows),
        "with_drafts": sum(row["drafts"] > 0 for row in rows),
        "recovered": sum(map(is_well, rows)),
        "seed": seed,
        "rows": rows,
        "ok": all(map(is_well, rows)),
    }


if __name__ == "__main__":
    sys.exit(main(__doc__, hammer, "build"))
