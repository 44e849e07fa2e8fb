"""Kills `tilewright tune --merge` again and again, each time with other files, and looks at what is left.

    python -m benchmarks.robustness.kills.merge [--kills 20] [--seed N] [--write]

Before each run it draws new sources: parts of the project's tuned files, with other times, most of them of
problems that the target has already. It kills the run at a random moment, half of the time anywhere,
else after the first file has been written; three times in four by SIGKILL, else by SIGTERM. Then every tuned
file must load, and hold all that it held before. The same command, run again on a copy of what is left, must
exit with 0 and leave what a run that nobody kills makes of the folder as it was, to the byte, and nothing
else. The killed folder itself goes on to the next kill.
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

from benchmarks.robustness.kills.common import SIGNALS, compared, files, kill, main

from tilewright.errors import TunedFileError
from tilewright.selection import tuned_files

REPOSITORY = Path(__file__).resolve().parents[3]
SHIPPED = sorted((REPOSITORY / "tuned").glob("*/*.json"))
TUNE = (sys.executable, "-c", "from tilewright_generator.cli import main; main()", "tune")
SOURCES = 24  # files to a merge
_ROWS = 40  # entries to a file


class Merge:
    """A folder of tuned files, and sources that are merged into it."""

    def __init__(self, folder: Path, chance: random.Random, sources: int = SOURCES) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.sources = [folder / "sources" / f"{number}.json" for number in range(sources)]
        self._chance = chance
        self._shipped = [json.loads(path.read_text(encoding="utf-8")) for path in SHIPPED]
        (folder / "sources").mkdir(parents=True)
        self.out.mkdir()

    def draw(self) -> None:
        """Writes new sources."""
        for path in self.sources:
            whole = self._chance.choice(self._shipped)
            path.write_text(json.dumps(whole | {"kinds": [self._part(self._chance.choice(whole["kinds"]))]}))

    def _part(self, section: dict[str, Any]) -> dict[str, Any]:
        """Some of a section's entries, with another time."""
        rows = self._chance.sample(section["tuned"], min(_ROWS, len(section["tuned"])))
        seconds = self._chance.randint(1000, 9999)
        return section | {"tuned": [row | {"seconds": seconds * 1e-9} for row in rows]}

    def command(self, out: Path) -> list[str]:
        return [*TUNE, "--merge", *map(str, self.sources), "--out", str(out), "--root", str(REPOSITORY)]

    def run(self, out: Path) -> tuple[int, str]:
        done = subprocess.run(self.command(out), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def problems(folder: Path) -> set[str]:
    """The problems that the folder's files have entries of. Raises TunedFileError if a file does not load."""
    return {
        json.dumps([file.family, section.kind, {**row, "tactic": "", "seconds": 0}])
        for file in map(tuned_files.read, folder.glob("*/*.json"))
        for section in file.sections
        for row in section.rows
    }


def kill_once(merge: Merge, moment: float, writing: bool, by: signal.Signals) -> dict[str, Any]:
    """Kills a merge `moment` seconds after it has started, or after it has begun `writing`."""
    before, had = files(merge.out), problems(merge.out)
    ready = (lambda: files(merge.out) != before) if writing else (lambda: True)
    killed = kill(merge.command(merge.out), moment, ready=ready, by=by)
    try:
        lost = len(had - problems(merge.out))
        loads = True
    except TunedFileError:
        loads, lost = False, len(had)
    return {
        "signal": by.name,
        "after": "the first write" if writing else "the start",
        "seconds": round(moment, 3),
        "ended_before": killed.exit_code,
        "changed": files(merge.out) != before,
        "loads": loads,
        "lost": lost,
    }


def recover(merge: Merge, before: Path, scratch: Path) -> dict[str, Any]:
    """Runs the same merge on a copy of what is left, and compares with a merge into the folder as it was
    `before`."""
    copy, clean = scratch / "copy", scratch / "clean"
    shutil.copytree(merge.out, copy)
    shutil.copytree(before, clean)
    code, output = merge.run(copy)
    merge.run(clean)
    return compared(copy, clean, code, output)


def hammer(folder: Path, kills: int, seed: int, sources: int = SOURCES) -> dict[str, Any]:
    """Kills `kills` merges. `ok`: each file that was left loads and lacks nothing, and was recovered."""
    chance = random.Random(seed)
    merge = Merge(folder, chance, sources)
    merge.draw()
    started = time.perf_counter()
    code, output = merge.run(merge.out)
    if code != 0:
        raise RuntimeError(output)
    run = time.perf_counter() - started
    rows: list[dict[str, Any]] = []
    while (killed := sum(row["ended_before"] is None for row in rows)) < kills:
        merge.draw()
        before = folder / "before"
        shutil.copytree(merge.out, before)
        writing = bool(killed % 2)
        moment = chance.uniform(0, run / 4 if writing else run)
        row = kill_once(merge, moment, writing, chance.choice(SIGNALS))
        rows.append(row | recover(merge, before, folder / "scratch"))
        shutil.rmtree(before)
        print(json.dumps(rows[-1]), flush=True)
    return {
        "kills": sum(row["ended_before"] is None for row in rows),
        "changed": sum(row["changed"] and row["ended_before"] is None for row in rows),
        "recovered": sum(is_well(row) for row in rows),
        "seed": seed,
        "rows": rows,
        "ok": all(map(is_well, rows)),
    }


def is_well(row: dict[str, Any]) -> bool:
    return bool(row["loads"] and not row["lost"] and row["exit_code"] == 0 and row["equal"])


if __name__ == "__main__":
    sys.exit(main(__doc__, hammer, "merge"))
