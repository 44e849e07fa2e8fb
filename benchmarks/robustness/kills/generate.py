"""Kills `tilewright generate` again and again, each time with other inputs, and looks at what is left.

    python -m benchmarks.robustness.kills.generate [--kills 20] [--seed N] [--write]

Before each run it changes some of a project's inputs: the template, which kernels a spec names, whether
there is the spec at all. It kills the run at a random moment, half of the time anywhere, else after the first
file has been written; three times in four by SIGKILL, else by SIGTERM. Then a copy of what is left must
recover: the inputs change once more, `generate` without `--force` exits with 0, and there is what a clean run
makes, to the byte, and nothing else. The killed folder itself goes on to the next kill.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.robustness.kills.common import SIGNALS, compared, kill, main

REPOSITORY = Path(__file__).resolve().parents[3]
GENERATE = (sys.executable, "-c", "from tilewright_generator.cli import main; main()", "generate")
TILES = [f"128x{n}x64" for n in range(32, 225, 16)]
MODULES = [f"{layout}_{d}" for layout in ("tn", "tt", "nn", "nt") for d in ("bf16", "f32")]


class Project:
    """Eight modules of up to 156 kernels, whose inputs change at random."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.out = folder / "generated"
        self._chance = chance
        self._template = folder / "templates/gemm/kernel.cu.j2"
        shutil.copytree(REPOSITORY / "templates", folder / "templates")
        self._text = self._template.read_text(encoding="utf-8")
        (folder / "specs").mkdir()
        for module in MODULES:
            self._write_spec(module)

    def change(self) -> None:
        """Changes one to three of the inputs; one module at least is left."""
        for _ in range(self._chance.randint(1, 3)):
            self._chance.choice((self._write_template, self._write_some_spec, self._take_a_spec_away))()

    def _write_template(self) -> None:
        note = f"// {self._chance.randrange(1 << 30)}\n"
        self._template.write_text(self._text + note, encoding="utf-8")

    def _write_some_spec(self) -> None:
        self._write_spec(self._chance.choice(MODULES))

    def _write_spec(self, module: str) -> None:
        layout, d = module.split("_")
        tiles = self._chance.sample(TILES, self._chance.randint(4, len(TILES)))
        self._spec(module).write_text(
            f"family: gemm\narch: sm_90a\nmainloop: cutlass\na: bf16\nb: bf16\n"
            f"d: {d}\nlayout: {layout}\nconfigs:\n"
            f"  - tile: [{', '.join(tiles)}]\n"
            "    cluster: [1x1, 2x1, 1x2]\n    activation: [none, relu]\n    bias: [false, true]\n",
            encoding="utf-8",
        )

    def _take_a_spec_away(self) -> None:
        present = [module for module in MODULES if self._spec(module).exists()]
        if len(present) > 1:
            self._spec(self._chance.choice(present)).unlink()

    def _spec(self, module: str) -> Path:
        return self.folder / "specs" / f"{module}.yaml"

    def generate(self, out: Path) -> tuple[int, str]:
        command = [*GENERATE, "--root", str(self.folder), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def kill_once(project: Project, moment: float, writing: bool, by: signal.Signals) -> dict[str, Any]:
    """Kills a run `moment` seconds after it has started, or after it has begun `writing`."""
    project.change()
    before = _times(project.out)
    ready = (lambda: _times(project.out) != before) if writing else (lambda: True)
    command = [*GENERATE, "--root", str(project.folder)]
    killed = kill(command, moment, ready=ready, by=by)
    return {
        "signal": by.name,
        "after": "the first write" if writing else "the start",
        "seconds": round(moment, 3),
        "ended_before": killed.exit_code,
        "half_written": _half_written(project.out),
    }


def recover(project: Project, scratch: Path) -> dict[str, Any]:
    """Runs with other inputs on a copy of what the kill has left, and compares with a run from nothing."""
    copy, clean = scratch / "copy", scratch / "clean"
    shutil.copytree(project.out, copy)
    project.change()
    code, output = project.generate(copy)
    project.generate(clean)
    return compared(copy, clean, code, output)


def hammer(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kills `kills` runs. `ok`: what each left has been recovered, and at last the folder itself."""
    chance = random.Random(seed)
    project = Project(folder, chance)
    started = time.perf_counter()
    code, output = project.generate(project.out)
    if code != 0:
        raise RuntimeError(output)
    run = time.perf_counter() - started
    rows: list[dict[str, Any]] = []
    while (killed := sum(row["ended_before"] is None for row in rows)) < kills:
        writing = bool(killed % 2)
        moment = chance.uniform(0, run / 4 if writing else run)
        row = kill_once(project, moment, writing, chance.choice(SIGNALS))
        rows.append(row | recover(project, folder / "scratch"))
        print(json.dumps(rows[-1]), flush=True)
    last = recover(project, folder / "scratch")
    return {
        "kills": sum(row["ended_before"] is None for row in rows),
        "half_written": sum(row["half_written"] for row in rows),
        "recovered": sum(row["exit_code"] == 0 and row["equal"] for row in rows),
        "seed": seed,
        "rows": rows,
        "ok": all(row["exit_code"] == 0 and row["equal"] for row in [*rows, last]),
    }


def _times(out: Path) -> dict[str, int]:
    """When each module's folder last got another file. A run may remove a folder meanwhile."""
    times: dict[str, int] = {}
    for path in out.glob("*"):
        if path.is_dir():
            with contextlib.suppress(FileNotFoundError):
                times[path.name] = path.stat().st_mtime_ns
    return times


def _half_written(out: Path) -> bool:
    """Whether a manifest lists two hashes for a name, as one does while files are being replaced, or a file
    that there is not."""
    for manifest in out.glob("*/manifest.txt"):
        names = [line[66:] for line in manifest.read_text(encoding="utf-8").splitlines()[2:]]
        if len(set(names)) < len(names):
            return True
        if any(not (manifest.parent / name).exists() for name in names if "/" not in name):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(__doc__, hammer, "generate"))
