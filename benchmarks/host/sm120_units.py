"""What the lean kernels for sm_12x cost: seconds of their units beside CUTLASS's, and lines of host code.

    python -m benchmarks.host.sm120_units [--largest N] [--write]

compiles the N units of each module with the most machine code, by the committed records, and the units of
CUTLASS's kernels that have a lean kernel's types and tile. Seconds are of processor time, of nvcc with all
that it starts, as `tilewright build` calls it; CUTLASS's headers have to be installed. Lines are those of the
files at hand that are there for sm_12x alone, and lines of other files that name it.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.host.compile_unit import find
from benchmarks.lib import ratios
from benchmarks.lib.machine import describe, record, run

from tilewright.base import paths
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright_generator import records

MODULES = ("sm120_gemm_lean", "sm120_grouped_gemm", "sm120_blockscaled_gemm_lean", "sm120_reduced_gemm")
MOST_SECONDS = 5.0
TYPES_AND_TILES = (
    ("nvfp4_nvfp4", ("128x128x128", "128x128x256", "256x128x128")),
    ("mxfp4_mxfp4", ("128x128x128", "128x128x256")),
    ("mxfp8_mxfp8", ("128x128x128",)),
)
RUNTIME = Path(__file__).parents[2] / "runtime" / "tilewright"
# Host code whose name says that it is there for mma.sync or sm_12x.
OWN_FILES = re.compile(r"mma_(rules|memory|model)|cost_(mma|sm120)")
# A line that is there for these kernels, in files that other kernels have, too.
NAMES_IT = re.compile(
    r"\bby_mma\b|\bmma\b|MMA_SYNC|_MMA_|SM120|sm_?12[0x]|\bpacked\(config\)|\bfp4\(config\)"
)
# What brought them: definitions of instructions, main loops, families, models, DeepGEMM's functions.
COMMITS = (
    "d3af0c1a", "36afe956", "13b49c69", "f671a99d", "db21c10e", "01ad3305", "d7176441", "4b26508d",
    "f7bedc79", "72346e35", "f729f97a", "0cacc4b9", "23bfb404", "f04f5766",
)  # fmt: skip
KINDS: dict[str, tuple[str, ...]] = {
    "device code (`runtime/include`, `templates`)": ("runtime/include/", "templates/"),
    "specs, and schemas of them": ("specs/",),
    "generated sources and tables": ("generated/",),
    "host code (`runtime/tilewright`, `generator`)": ("runtime/tilewright/", "generator/"),
    "tests": ("tests/",),
    "docs, benchmarks and records": ("docs/", "benchmarks/", "README.md", "CHANGELOG.md"),
}
NOT_THEIRS = re.compile(r"tcgen05|/mixed_|weight_layout")  # mma.sync of Hopper's kernels, and other chips


class Unit(NamedTuple):
    """One compiled unit."""

    kernel: str
    seconds: float
    gigabytes: float


def largest(module: str, count: int) -> list[str]:
    """The kernels with the most machine code."""
    rows = _rows(module)
    return [row["name"] for row in sorted(rows, key=lambda row: -row["code_bytes"])[:count]]


def _rows(module: str) -> list[dict[str, Any]]:
    path = Path(__file__).parents[1] / "results" / "compile" / f"{module}.json"
    kernels: list[dict[str, Any]] = records.read(path)["kernels"]
    return kernels


def compiled(toolchain: NvccToolchain, name: str) -> Unit:
    """Compiles a kernel's unit."""
    source, row = find(name)
    with tempfile.TemporaryDirectory() as folder:
        command = Nvcc().command(toolchain, paths.include_dir(), source, list(Nvcc().flags(row)), ())
        done = run(command, cwd=Path(folder))
    unit = Unit(name, round(done.cpu_seconds, 1), round(done.memory / 1e9, 2))
    print(json.dumps(unit), file=sys.stderr, flush=True)
    return unit


def pairs() -> Iterable[tuple[str, str]]:
    """A lean kernel and CUTLASS's of the same types and tile."""
    for types, tiles in TYPES_AND_TILES:
        for tile in tiles:
            head = f"blockscaled_gemm_sm120f_{types}_bf16_{tile}"
            yield f"{head}_mma_coop", f"{head}_1x1_coop"


def module_cells(module: str, units: list[Unit]) -> tuple[object, ...]:
    rows = _rows(module)
    seconds = [unit.seconds for unit in units]
    return (
        module,
        len(rows),
        ", ".join(sorted({name.split(".")[0] for row in rows for name in row["tensor_instructions"]})),
        sum(row["spill_store_bytes"] > 0 for row in rows),
        max(row["registers"] for row in rows),
        max(row["smem_bytes"] for row in rows),
        len(units),
        round(statistics.median(seconds), 1),
        max(seconds),
        max(unit.gigabytes for unit in units),
    )


def host_lines() -> list[tuple[str, int, str]]:
    """Files of host code, the lines that are there for sm_12x, and whether that is the whole file."""
    counted = []
    for path in sorted(RUNTIME.rglob("*.py")):
        if NOT_THEIRS.search(path.relative_to(RUNTIME).as_posix()):
            continue
        text = path.read_text(encoding="utf-8").splitlines()
        whole = OWN_FILES.search(path.name) is not None
        count = len(text) if whole else sum(NAMES_IT.search(line) is not None for line in text)
        if count:
            counted.append((path.relative_to(RUNTIME).as_posix(), count, "whole" if whole else "lines"))
    return counted


def added() -> dict[str, int]:
    """Lines that the commits which brought the kernels added, by kind of file."""
    lines: dict[str, int] = dict.fromkeys(KINDS, 0)
    root = Path(__file__).parents[2]
    for commit in COMMITS:
        for line in run(["git", "show", "--numstat", "--format=", commit], cwd=root).output.splitlines():
            count, _, name = line.split("\t")
            kind = next((kind for kind, heads in KINDS.items() if name.startswith(heads)), None)
            if kind is not None and count != "-":
                lines[kind] += int(count)
    return lines


PAGE = """\
# What the lean kernels for sm_12x cost

{date}, {processor}, {cores} cores, nvcc {nvcc}, CUTLASS {cutlass}, {host}.
Made by `{command}`.

## Units

Registers, shared memory, spills and instructions are those of all kernels, by the
[records](compile/). Seconds are of processor time: what a unit takes on one core that it has for itself.
Timed are the units with the most machine code.

{modules}

Beside CUTLASS's units of the same types and tile. CUTLASS 4.2 has no BF16, FP16 and unscaled FP8 for sm_120
in its builder, and no groups of rows.

{beside}

## Lines of host code

Lines that the commits which brought the kernels added, by `git show --numstat`:

{added}

What of the runtime is there for sm_12x today: {whole_files} files of their own with {whole_lines} lines, and
{other_lines} lines in {other_files} other files that name mma.sync, sm_12x or packed operands. The generator
has none.

{files}
"""


def table(head: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table of the cells as they print."""
    return "\n".join(ratios.table(head, [[*map(str, row)] for row in rows]))


def markdown(result: dict[str, Any], modules: dict[str, list[Unit]], beside: list[tuple[Unit, Unit]]) -> str:
    whole = [entry for entry in result["lines"] if entry[2] == "whole"]
    shared = [entry for entry in result["lines"] if entry[2] == "lines"]
    of_modules = (
        "module", "kernels", "instructions", "with spills", "most registers", "most shared memory, B",
        "units timed", "median s", "most s", "most GB",
    )  # fmt: skip
    pair = ("kernel", "s", "GB", "CUTLASS's unit, s", "GB", "CUTLASS / ours")
    return PAGE.format(
        **result | {"lines": None, "added": table(("files", "lines added"), result["added"].items())},
        modules=table(of_modules, (module_cells(*entry) for entry in modules.items())),
        beside=table(
            pair,
            ((*ours, *theirs[1:], round(theirs.seconds / ours.seconds, 1)) for ours, theirs in beside),
        ),
        whole_files=len(whole),
        whole_lines=sum(entry[1] for entry in whole),
        other_files=len(shared),
        other_lines=sum(entry[1] for entry in shared),
        files=table(("file below runtime/tilewright", "lines", "of"), (*whole, *shared)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=8, help="units of each module")
    parser.add_argument("--write", action="store_true", help="record in benchmarks/results/")
    arguments = parser.parse_args()
    toolchain = find_toolchain()
    modules = {
        module: [compiled(toolchain, name) for name in largest(module, arguments.largest)]
        for module in MODULES
    }
    beside = [(compiled(toolchain, ours), compiled(toolchain, theirs)) for ours, theirs in pairs()]
    result = {
        "command": "python -m benchmarks.host.sm120_units --write",
        **describe(),
        **toolchain.describe(),
        "lines": host_lines(),
        "added": added(),
    }
    text = markdown(result, modules, beside)
    print(text)
    if arguments.write:
        record("sm120_units.md", text)
    slow = [unit for units in modules.values() for unit in units if unit.seconds > MOST_SECONDS]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
