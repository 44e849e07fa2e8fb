"""Kills `tilewright cache --prune` again and again, and looks at what is left.

    python -m benchmarks.robustness.kills.prune [--kills 20] [--seed N] [--write]

Each run has a library in force with its objects, and a hundred each of objects, libraries, logs and damaged
entries that nothing needs, to remove. It is killed at a random moment: half of the time anywhere, else after
the first removal; three times in four by SIGKILL, else by SIGTERM. What is in force must be whole then, the
same command must leave what a run that nobody killed leaves, to the byte, and a build must find its library.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.robustness.kills.build import Project, broken, built_files
from benchmarks.robustness.kills.common import SIGNALS, kill, main, messages

from tilewright.compile.store import Store

PRUNE = (sys.executable, "-c", "from tilewright_generator.cli import main; main()", "cache", "--prune")
_LONG_AGO = 1_000_000_000  # seconds since 1970


def litter(cache: Path, count: int, chance: random.Random) -> None:
    """Puts `count` things into a cache that nothing needs, of each kind, and makes all that is there old."""
    keys = [f"{chance.getrandbits(128):032x}" for _ in range(count)]
    store = Store(cache)
    for key in keys:
        for folder in (
            store.folder("objects") / key,
            store.folder("libraries") / "mini" / key,
            store.folder("quarantine") / f"{chance.getrandbits(60)}-{key}",
        ):
            folder.mkdir()
            for name in ("report.json", "log.txt", "kernel.o"):
                (folder / name).write_bytes(chance.randbytes(100))
        (store.folder("logs") / f"one.{key[:8]}.log").write_text("error\n")
    for path in cache.rglob("*"):
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def files(cache: Path) -> dict[str, bytes]:
    """Every file of a cache but the locks that are left in it."""
    paths = (path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(cache).as_posix(): path.read_bytes() for path in paths}


def prune(cache: Path) -> tuple[int, str]:
    done = subprocess.run([*PRUNE, "--cache", str(cache)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def kill_once(cache: Path, moment: float, removing: bool, by: signal.Signals) -> dict[str, Any]:
    """Kills a run `moment` seconds after it has started, or after it has begun `removing`."""
    before = len(files(cache))
    at_first = len(list((cache / "libraries" / "mini").iterdir()))
    ready = (
        (lambda: len(list((cache / "libraries" / "mini").iterdir())) < at_first)
        if removing
        else (lambda: True)
    )
    killed = kill([*PRUNE, "--cache", str(cache)], moment, ready=ready, by=by)
    return {
        "signal": by.name,
        "after": "the first removal" if removing else "the start",
        "seconds": round(moment, 3),
        "ended_before": killed.exit_code,
        "files_removed": before - len(files(cache)),
        "half_removed": len(list((cache / "tmp").glob("removed-*"))),
    }


def hammer(folder: Path, kills: int, seed: int, count: int = 100) -> dict[str, Any]:
    """Kills `kills` runs. `ok`: what each left has been recovered, and builds as before."""
    chance = random.Random(seed)
    project = Project(folder, chance)
    full, clean, cache = folder / "full", folder / "pruned", folder / "cache"
    shutil.copytree(project.clean, full)
    litter(full, count, chance)
    shutil.copytree(full, clean)
    started = time.perf_counter()
    code, output = prune(clean)
    run = time.perf_counter() - started
    if code != 0:
        raise RuntimeError(output)
    expected, in_force = files(clean), built_files(project.clean)
    rows: list[dict[str, Any]] = []
    while (killed := sum(row["ended_before"] is None for row in rows)) < kills:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(full, cache)
        removing = bool(killed % 2)
        moment = chance.uniform(0, run / 10 if removing else run)
        row = kill_once(cache, moment, removing, chance.choice(SIGNALS))
        row["in_force"] = built_files(cache) == in_force
        code, output = prune(cache)
        equal = files(cache) == expected
        well = code == 0 and equal
        rows.append(row | {"exit_code": code, "equal": equal, "messages": messages(output, ok=well)})
        print(json.dumps(rows[-1]), flush=True)
    code, _ = project.build(cache)
    builds = code == 0 and built_files(cache) == in_force and not broken(cache)
    recovered = sum(row["in_force"] and row["exit_code"] == 0 and row["equal"] for row in rows)
    return {
        "kills": sum(row["ended_before"] is None for row in rows),
        "half_done": sum(
            row["ended_before"] is None and row["files_removed"] + row["half_removed"] > 0 for row in rows
        ),
        "recovered": recovered,
        "builds": builds,
        "seed": seed,
        "rows": rows,
        "ok": builds and recovered == len(rows),
    }


if __name__ == "__main__":
    sys.exit(main(__doc__, hammer, "prune"))
