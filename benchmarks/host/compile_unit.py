"""Seconds and memory that one compile unit takes, beside the same kernel in plain CUTLASS.

    python -m benchmarks.host.compile_unit [--runs N] [--write]
    python -m benchmarks.host.compile_unit --trace       # where the device compiler's time goes
    python -m benchmarks.host.compile_unit --largest MODULE... --output FILE

A unit, two with mainloops of ours and one with CUTLASS's, is compiled as `tilewright build` compiles it; its
peer, peers/plain_cutlass_gemm.cu, with the same flags, but always as C++17, and CUTLASS's whole headers. The
two take turns. Seconds are of processor time (the phases': of the clock), medians of the runs; memory is that
of the largest process.

`--largest` compiles, without a peer, the units of modules with the most machine code by their records, and
writes a table of them.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.host.compile_trace import summarize
from benchmarks.lib import ratios
from benchmarks.lib.machine import RESULTS, Run, describe, record, run, write_page

from tilewright.base import paths, sets
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.declarations.table import KernelRecord, Table, find_tables

PEER = Path(__file__).parents[1] / "peers" / "plain_cutlass_gemm.cu"
TRACED = "gemm_sm90_tf32_tf32_f32_f32_tn_128x128x32_1x1_coop_bias_gelu"
FP8 = {"OPERAND": "cutlass::float_e4m3_t"}
SHOWN = ("cicc", "cudafe++", "host compiler", "ptxas")  # phases of ours, in seconds of the clock
PINGPONG = {"MAINLOOP": "KernelTmaWarpSpecializedPingpong", "EPILOGUE": "TmaWarpSpecialized"}
LARGEST = 3  # units of a module
UNITS: dict[str, dict[str, str]] = {
    "gemm_sm90_bf16_bf16_f32_bf16_tn_128x256x64_lean_coop": {},
    "gemm_sm90_tf32_tf32_f32_f32_tn_128x128x32_1x1_coop_streamk": {
        "OPERAND": "cutlass::tfloat32_t",
        "OUTPUT": "float",
        "TILE_N": "128",
        "TILE_K": "32",
        "CLUSTER_M": "1",
        "SCHEDULER": "StreamKScheduler",
    },
    "gemm_sm90_e4m3_e4m3_f32_bf16_tn_128x128x128_lean_pingpong_fastacc": {
        **FP8,
        **PINGPONG,
        "MAINLOOP": "KernelTmaWarpSpecializedPingpongFP8FastAccum",
        "TILE_N": "128",
        "TILE_K": "128",
    },
}


@dataclass(frozen=True)
class Compiled:
    whole: Run
    phases: dict[str, float]  # seconds of the clock


def compile_once(
    toolchain: NvccToolchain, source: Path, flags: list[str], folder: Path, trace: Path | None = None
) -> Compiled:
    times = folder / "times.csv"
    times.unlink(missing_ok=True)
    command = Nvcc().command(toolchain, paths.include_dir(), source, [*flags, "-time", str(times)], ())
    if trace is not None:
        command += ["-fdevice-time-trace", str(trace)]
    whole = run(command, cwd=folder)
    phases: dict[str, float] = defaultdict(float)
    with times.open(encoding="utf-8", newline="") as file:
        for row in list(csv.reader(file))[1:]:
            phases[_phase(row[1])] += float(row[6]) / 1000
    return Compiled(whole, phases)


def _phase(name: str) -> str:
    name = name.strip()
    if "preprocessing" in name:
        return "preprocess"
    return "host compiler" if "(compiling)" in name else "other" if "nvcc" in name else name


def find(name: str) -> tuple[Path, KernelRecord]:
    """Source and row of a committed kernel."""
    for path in find_tables():
        table = Table.read(path)
        if name in table:
            return table.source(table[name]), table[name]
    raise SystemExit(f"no kernel {name} in {sets.first_folder()}")


def measure(toolchain: NvccToolchain, runs: int) -> list[dict[str, Any]]:
    utilities = toolchain.cutlass.parent / "tools" / "util" / "include"
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, peer in UNITS.items():
            source, record_of = find(name)
            flags = list(Nvcc().flags(record_of))
            as_cutlass = Nvcc().flags(record_of._replace(standard="c++17"))
            definitions = [f"-DPEER_{key}={value}" for key, value in peer.items()]
            ours: list[Compiled] = []
            theirs: list[Compiled] = []
            for _ in range(runs):
                ours.append(compile_once(toolchain, source, flags, Path(temporary)))
                peers_flags = [*as_cutlass, *definitions, f"-I{utilities}"]
                theirs.append(compile_once(toolchain, PEER, peers_flags, Path(temporary)))
            rows.append({"kernel": name, "tilewright": _median(ours), "plain_cutlass": _median(theirs)})
            rows[-1]["ratio"] = round(
                rows[-1]["plain_cutlass"]["seconds"] / rows[-1]["tilewright"]["seconds"], 2
            )
            print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def trace(toolchain: NvccToolchain) -> dict[str, Any]:
    """Compiles one unit under nvcc's own tracing and sums the trace up."""
    source, traced = find(TRACED)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "trace.json"
        compile_once(toolchain, source, list(Nvcc().flags(traced)), Path(temporary), file.with_suffix(""))
        return summarize(file)


def measure_largest(toolchain: NvccToolchain, modules: list[str], runs: int) -> list[dict[str, Any]]:
    """Compiles the `LARGEST` units of each module with the most bytes of machine code."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for module in modules:
            recorded = json.loads((RESULTS / "compile" / f"{module}.json").read_text(encoding="utf-8"))[
                "kernels"
            ]
            for row in sorted(recorded, key=lambda row: -row["code_bytes"])[:LARGEST]:
                source, kernel = find(row["name"])
                flags = list(Nvcc().flags(kernel))
                compiled = [compile_once(toolchain, source, flags, Path(temporary)) for _ in range(runs)]
                rows.append(
                    {"module": module, "kernel": row["name"], "code": row["code_bytes"], **_median(compiled)}
                )
                print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def markdown_of_largest(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Compiling the largest units of modules",
        "",
        f"`{head['command']}`; {head['date']}, {head['processor']}, {head['cores']} cores, "
        f"nvcc {head['nvcc']}. Seconds of processor time, medians of {head['runs']} runs.",
        "",
    ]
    columns = ("module", "kernel", "machine code, bytes", "seconds", "GB")
    cells = [
        [row["module"], row["kernel"], row["code"], f"{row['seconds']:.1f}", f"{row['peak_gb']:.2f}"]
        for row in rows
    ]
    return "\n".join([*lines, *ratios.table(columns, cells)]) + "\n"


def _median(compiled: list[Compiled]) -> dict[str, Any]:
    phases = compiled[0].phases
    return {
        "seconds": round(statistics.median(each.whole.cpu_seconds for each in compiled), 1),
        "peak_gb": round(max(each.whole.memory for each in compiled) / 1e9, 2),
        "phases": {
            name: round(statistics.median(each.phases[name] for each in compiled), 1) for name in phases
        },
    }


def markdown(result: dict[str, Any]) -> str:
    lines = [
        "# Compiling one unit",
        "",
        f"{result['date']}, {result['processor']}, {result['cores']} cores, nvcc {result['nvcc']}, "
        f"CUTLASS {result['cutlass']}, {result['host']}; medians of {result['runs']} runs that took turns.",
        "",
        f"Made by `{result['command']}`.",
        "",
        f"| kernel | tilewright s | GB | plain CUTLASS s | GB | plain / ours | {' | '.join(SHOWN)} |",
        "|" + "---|" * (6 + len(SHOWN)),
    ]
    for row in result["units"]:
        ours, plain = row["tilewright"], row["plain_cutlass"]
        phases = [f"{ours['phases'].get(name, 0):.1f}" for name in SHOWN]
        cells = [row["kernel"], ours["seconds"], ours["peak_gb"], plain["seconds"], plain["peak_gb"]]
        lines.append("| " + " | ".join(str(cell) for cell in [*cells, row["ratio"], *phases]) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="compiles of each unit; a time is their median")
    parser.add_argument("--write", action="store_true", help="record in benchmarks/results/")
    parser.add_argument("--trace", action="store_true", help="takes 3 minutes, 10 GB, and 2 GB of disk")
    parser.add_argument(
        "--largest",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="compile the three largest units of these modules instead",
    )
    parser.add_argument("--output", type=Path, help="the page of --largest")
    arguments = parser.parse_args()
    toolchain = find_toolchain()
    if arguments.largest:
        command = f"python -m benchmarks.host.compile_unit --largest {' '.join(arguments.largest)}"
        head = {"command": command, "runs": arguments.runs, **describe(), **toolchain.describe()}
        page = markdown_of_largest(head, measure_largest(toolchain, arguments.largest, arguments.runs))
        print(page)
        if arguments.output:
            write_page(arguments.output, page)
        return 0
    if arguments.trace:
        result = {"kernel": TRACED, **describe(), **toolchain.describe(), **trace(toolchain)}
        print(json.dumps(result, indent=1))
        if arguments.write:
            record("compile_trace.json", json.dumps(result, indent=1) + "\n")
        return 0
    result = {
        "command": "python -m benchmarks.host.compile_unit --write",
        "runs": arguments.runs,
        **describe(),
        **toolchain.describe(),
        "units": measure(toolchain, arguments.runs),
    }
    print(markdown(result))
    if arguments.write:
        record("compile_unit.md", markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
