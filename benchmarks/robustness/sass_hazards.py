"""Looks for races in the machine code of all kernels (compile/nvcc/sass_hazards.py), with any headers.

    python -m benchmarks.robustness.sass_hazards [MODULE ...] [--filter GLOB] [--include FOLDER] [--jobs N]
        [--report FILE]

Compiles what the cache lacks and prints a line for each module: kernels, early releases, early accesses, and
accesses of CUTLASS's warps that are exceptions (compile/nvcc/waits.py); below them, what was found and why
what is excepted is right. Exits 1 if a kernel has a race, or does not compile.

To see that the check finds races which have been mended, compile against the headers of an earlier commit:

    git worktree add /tmp/old f46e896d
    python -m benchmarks.robustness.sass_hazards sm90_grouped_gemm hc_prenorm quantize \
        --include /tmp/old/runtime/include
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from tilewright.compile.building import build
from tilewright.compile.nvcc.sass_hazards import EARLY_ACCESS, EARLY_RELEASE
from tilewright.compile.progress import progress_for
from tilewright.compile.report import BuildReport, UnitReport
from tilewright.declarations.table import read_tables

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="modules whose built kernels are read; default: all"
    )
    parser.add_argument("--filter", default="*", metavar="GLOB", help="of kernels' names")
    parser.add_argument("--include", type=Path, metavar="FOLDER", help="headers instead of runtime/include")
    parser.add_argument("--jobs", type=int, help="compiles that run at the same time")
    parser.add_argument("--report", type=Path, help="of the build, as `tilewright build --report` writes it")
    options = parser.parse_args()
    tables = read_tables(ROOT / "generated")
    if unknown := set(options.modules) - {table.module for table in tables}:
        parser.error(f"no such module: {', '.join(sorted(unknown))}")
    report = build(
        [table for table in tables if not options.modules or table.module in options.modules],
        lambda record: fnmatch(record.name, options.filter),
        include=options.include,
        jobs=options.jobs,
        link_libraries=False,
        progress=progress_for(),
    )
    if options.report:
        options.report.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    print("\n".join(described(report)))
    return int(any(races(unit) or unit.fatal(strict=False) for unit in report.units))


def races(unit: UnitReport) -> Counter[str]:
    """The number of a kernel's findings, by kind of race."""
    kinds = (EARLY_RELEASE, EARLY_ACCESS)
    return Counter(finding.kind for finding in unit.findings if finding.kind in kinds)


def described(report: BuildReport) -> list[str]:
    lines = [
        "| module | kernels | not compiled | early releases | early accesses | exceptions |",
        "|---" * 6 + "|",
    ]
    for module in sorted({unit.module for unit in report.units}):
        units = [unit for unit in report.units if unit.module == module]
        compiled = [unit for unit in units if unit.data]
        hazards = sum(map(races, compiled), Counter[str]())
        excepted = sum(bool(unit.exceptions) for unit in compiled)
        counts = (
            len(compiled),
            len(units) - len(compiled),
            hazards[EARLY_RELEASE],
            hazards[EARLY_ACCESS],
            excepted,
        )
        lines.append(f"| {module} | {' | '.join(map(str, counts))} |")
    for unit in report.units:
        lines += [f"{unit.name}: {finding.message}" for finding in unit.findings]
    reasons = {each["reason"] for unit in report.units for each in unit.exceptions}
    for reason in sorted(reasons):
        units = [unit for unit in report.units if reason in (each["reason"] for each in unit.exceptions)]
        opcodes = sorted({each["opcode"] for unit in units for each in unit.exceptions})
        lines.append(f"exception of {len(units)} kernels ({', '.join(opcodes)}): {reason}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
