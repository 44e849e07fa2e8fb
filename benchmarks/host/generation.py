"""Generation beside CUTLASS's own generator, for about as many SM90 GEMM kernels.

    python -m benchmarks.host.generation [--runs N] [--write]

Both are started as processes, cold, write into new folders and take turns; medians are compared. Then what
a maintainer waits for: a second run with nothing changed, and one more line in the larger spec.
The peer is `python -m cutlass_library.generator` of the nvidia-cutlass wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import Run, describe, record, run

REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = Path(__file__).parents[1] / "specs"
# Filters on the names of the peer's kernels, which leave about the spec's number of kernels.
PEERS = {
    "sm90_gemm_2000": "cutlass3x_sm90_tensorop_gemm_e4m3*",
    "sm90_gemm_20000": "cutlass3x_sm90_tensorop_*",
}
ONE_MORE = "  - {a: bf16, b: bf16, d: bf16, tile: 128x160x64}\n"
# A disk takes from 15 to 250 us to make a file, depending on what was deleted before: what both generators
# write goes into memory where there is a tmpfs, and is kept until the end.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
TARGETS = {"ratio": 5.0, "unchanged_2000_s": 1.0, "one_more_line_s": 5.0, "one_more_line_mb": 500.0}


class OurProject:
    """A project of one spec in a folder of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.spec = folder / "specs" / f"{name}.yaml"
        self.out = folder / "generated"
        self.spec.parent.mkdir(parents=True)
        shutil.copy(SPECS / self.spec.name, self.spec)
        shutil.copytree(REPOSITORY / "templates", folder / "templates")
        script = "from tilewright_generator.cli import main; main()"
        self._command = [sys.executable, "-c", script, "generate", "--root", str(folder)]

    def generate(self) -> Run:
        return run(self._command)

    def kernels(self) -> int:
        return sum(1 for _ in self.out.glob("*/*.cu"))

    def times(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.out.rglob("*") if path.is_file()}


def peer(folder: Path, names: str) -> tuple[Run, int]:
    """CUTLASS's generator, into `folder`, and how many SM90 kernels it wrote."""
    options = ["--operations", "gemm", "--architectures", "90a", "--cuda-version", "13.0"]
    options += ["--log-level", "ERROR"]
    places = ["--build-dir", str(folder), "--curr-build-dir", str(folder)]
    command = [sys.executable, "-m", "cutlass_library.generator", *options, *places, "--kernels", names]
    done = run(command)
    return done, sum(1 for _ in folder.rglob("cutlass3x_sm90_*.cu"))


def cold(name: str, runs: int) -> dict[str, Any]:
    """Both generators from nothing, `runs` times in turns."""
    ours: list[Run] = []
    theirs: list[Run] = []
    kernels = peers_kernels = 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as temporary:
        for turn in range(runs):
            project = OurProject(Path(temporary) / f"ours-{turn}", name)
            os.sync()
            ours.append(project.generate())
            kernels = project.kernels()
            folder = Path(temporary) / f"peer-{turn}"
            folder.mkdir()
            os.sync()
            done, peers_kernels = peer(folder, PEERS[name])
            theirs.append(done)
    result = {"tilewright": _row(ours, kernels), "cutlass_library": _row(theirs, peers_kernels)}
    rates = [row["kernels_per_s"] for row in result.values()]
    return {**result, "ratio": round(rates[0] / rates[1], 1)}


def _row(runs: list[Run], kernels: int) -> dict[str, Any]:
    seconds = statistics.median(each.seconds for each in runs)
    return {
        "kernels": kernels,
        "seconds": round(seconds, 2),
        "kernels_per_s": round(kernels / seconds),
        "peak_mb": round(max(each.memory for each in runs) / 1e6),
    }


def again(name: str, runs: int) -> dict[str, Any]:
    """A run with nothing changed, and one with one more line in the spec: time, memory, files touched."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as temporary:
        project = OurProject(Path(temporary), name)
        project.generate()
        before = project.times()
        unchanged = [project.generate() for _ in range(runs)]
        after = project.times()
        text = project.spec.read_text(encoding="utf-8")
        grown = []
        for _ in range(runs):
            project.spec.write_text(text, encoding="utf-8")
            project.generate()
            start = project.times()
            project.spec.write_text(text + ONE_MORE, encoding="utf-8")
            grown.append(project.generate())
            touched = _touched(start, project.times())
        folder = project.out
        names = sorted(path.relative_to(folder).as_posix() for path in touched)
    return {
        "unchanged": {**_times(unchanged), "files_touched": len(_touched(before, after))},
        "one_more_line": {**_times(grown), "files_touched": names},
    }


def _times(runs: list[Run]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(each.seconds for each in runs), 2),
        "peak_mb": round(max(each.memory for each in runs) / 1e6),
    }


def _touched(before: dict[Path, int], after: dict[Path, int]) -> list[Path]:
    return [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]


def verdicts(result: dict[str, Any]) -> dict[str, bool]:
    """Which targets are met."""
    small, large = (result["specs"][name] for name in PEERS)
    grown = large["one_more_line"]
    return {
        "ratio": min(small["ratio"], large["ratio"]) >= TARGETS["ratio"],
        "unchanged_2000_s": small["unchanged"]["seconds"] < TARGETS["unchanged_2000_s"],
        "unchanged_touches_nothing": not small["unchanged"]["files_touched"]
        and not large["unchanged"]["files_touched"],
        "one_more_line_s": grown["seconds"] < TARGETS["one_more_line_s"],
        "one_more_line_mb": grown["peak_mb"] < TARGETS["one_more_line_mb"],
    }


def markdown(result: dict[str, Any]) -> str:
    versions = f"Python {result['python']}, nvidia-cutlass {result['nvidia-cutlass']}"
    lines = [
        "# Generating kernels",
        "",
        f"{result['date']}, {result['processor']}, {result['cores']} cores, {versions}; "
        f"medians of {result['runs']} cold runs that took turns, into {result['files']}.",
        "",
        f"Made by `{result['command']}`.",
        "",
        "| spec | generator | kernels | s | kernels/s | peak MB | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in result["specs"].items():
        for who in ("tilewright", "cutlass_library"):
            row = runs[who]
            ratio = runs["ratio"] if who == "tilewright" else 1
            cells = [name, who, f"{row['kernels']:,}", row["seconds"], f"{row['kernels_per_s']:,}"]
            lines.append("| " + " | ".join(str(cell) for cell in [*cells, row["peak_mb"], ratio]) + " |")
    lines += ["", "| spec | run | s | peak MB | files touched |", "|---|---|---|---|---|"]
    for name, runs in result["specs"].items():
        for what in ("unchanged", "one_more_line"):
            row = runs[what]
            touched = row["files_touched"]
            shown = touched if isinstance(touched, int) else f"{len(touched)}: {', '.join(touched)}"
            lines.append(
                f"| {name} | {what.replace('_', ' ')} | {row['seconds']} | {row['peak_mb']} | {shown} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="of each command; a time is their median")
    parser.add_argument("--write", action="store_true", help="record in benchmarks/results/")
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "command": "python -m benchmarks.host.generation --write",
        "runs": arguments.runs,
        "files": "memory (tmpfs)" if MEMORY else "a disk",
        **describe("tilewright", "nvidia-cutlass", "jinja2", "pyyaml"),
        "specs": {name: {**cold(name, arguments.runs), **again(name, arguments.runs)} for name in PEERS},
    }
    result["met"] = verdicts(result)
    print(markdown(result))
    if arguments.write:
        record("generation.md", markdown(result))
    missed = [name for name, met in result["met"].items() if not met]
    if missed:
        print(f"targets missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
