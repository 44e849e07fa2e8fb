"""What every kernel has been through, from committed records: docs/status.md is written, never edited.

Compiled: benchmarks/results/compile/<module>.json. Run: benchmarks/results/gpu/*.json. A row counts as
current only if its source key is that of the kernel as it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright_generator.errors import DriftError
from tilewright_generator.project import Project

if TYPE_CHECKING:
    from tilewright.table import Table

PAGE = Path("docs/status.md")
COMPILED = Path("benchmarks/results/compile")
RUN = Path("benchmarks/results/gpu")
_PIN = re.compile(r'"nvidia-cutlass==(\d+\.\d+\.\d+)')
_COLUMNS = (
    "kernel", "target", "compiled", "registers", "shared memory", "spills", "seconds", "instructions",
    "run on", "problems", "largest error",
)  # fmt: skip
CURRENT, STALE, NEVER = "current", "stale", "never"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one kernel has had, and of which source."""

    name: str
    target: str
    compiled: str
    run: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Its row of the compile record, if it has one."""
    spills: str = ""
    """Why it may spill registers, where its table allows it."""
    check: Mapping[str, Any] = field(default_factory=dict)
    """Its row of the newest GPU record that is current, else of the newest, with the GPU's name."""


def cutlass_version(project: Project) -> str:
    """The CUTLASS release the project is pinned to; empty where its pyproject.toml pins none."""
    path = project.root / "pyproject.toml"
    match = _PIN.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return match[1] if match else ""


def tables(project: Project) -> list[Table]:
    from tilewright.table import Table, find_tables  # noqa: PLC0415 (other commands need no runtime)

    return [Table.read(path) for path in find_tables(project.out)]


class Records:
    """What the committed records of a project say of its kernels."""

    def __init__(self, project: Project) -> None:
        from tilewright.build import records  # noqa: PLC0415

        self._compiled = project.root / COMPILED
        self._checks = _checks(project)
        self._keys = records.SourceKeys(_include(project), cutlass_version(project))

    def verdicts(self, table: Table) -> list[Verdict]:
        """One for each kernel of the table, by name. Raises DriftError where a source is missing."""
        rows = self._rows(table)
        found = []
        for name in sorted(table):
            try:
                found.append(self._verdict(table, name, rows.get(name, {})))
            except OSError as error:
                source = table.source(table[name])
                raise DriftError(f"{source}: {error.strerror}; `tilewright generate` writes it") from None
        return found

    def words(self, table: Table) -> dict[str, tuple[str, str]]:
        """Whether kernels were compiled and run, of those alone that have a record: only their sources are
        read, and one that is missing makes its records stale."""
        rows = self._rows(table)
        found = {}
        for name in (name for name in table if name in rows or name in self._checks):
            try:
                verdict = self._verdict(table, name, rows.get(name, {}))
                found[name] = verdict.compiled, verdict.run
            except OSError:
                found[name] = STALE if name in rows else NEVER, STALE if name in self._checks else NEVER
        return found

    def _rows(self, table: Table) -> dict[str, Any]:
        from tilewright.build import records  # noqa: PLC0415

        compiled = records.read(self._compiled / f"{table.module}.json")
        return {row["name"]: row for row in compiled["kernels"]}

    def _verdict(self, table: Table, name: str, row: Mapping[str, Any]) -> Verdict:
        record = table[name]
        key = self._keys.of(table, record)
        runs = self._checks.get(name, [])
        check = next((run for run in runs if run["source_key"] == key), runs[0] if runs else {})
        return Verdict(name, record.arch, _word(row, key), _word(check, key), row, record.spills, check)


def page(project: Project) -> str:
    """The text of docs/status.md."""
    lines = [
        "# What every kernel has been through",
        "",
        "Written by `tilewright status --write`; do not edit.",
        "",
        "*Compiled*: nvcc built it, and its machine code was checked. *Run*: compared with float64",
        "references on that GPU. *current*: of the source, headers, flags and CUTLASS release as they stand;",
        "*stale*: of others; *never*: no record. Times and the toolchain stand in benchmarks/results/.",
    ]
    records = Records(project)
    modules = [(table.module, records.verdicts(table)) for table in tables(project)]
    lines += ["", "| module | kernels | compiled | stale | never | run | stale | never |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for module, found in modules:
        counts = _counts(found)
        lines.append(f"| [{module}](#{module}) | {len(found)} | {' | '.join(map(str, counts))} |")
    for module, found in modules:
        lines += ["", f"## {module}", ""]
        lines += [_cells(_COLUMNS), _cells("---" for _ in _COLUMNS)]
        lines += [_row(verdict) for verdict in found]
    return "\n".join(lines) + "\n"


def _counts(found: Iterable[Verdict]) -> list[int]:
    compiled, run = Counter(each.compiled for each in found), Counter(each.run for each in found)
    return [counter[word] for counter in (compiled, run) for word in (CURRENT, STALE, NEVER)]


def _row(verdict: Verdict) -> str:
    numbers, check = verdict.numbers, verdict.check
    spills = str(numbers["spill_store_bytes"] + numbers["spill_load_bytes"]) if numbers else ""
    if spills not in ("", "0") and verdict.spills:
        spills += f": {verdict.spills}"
    instructions = " ".join(numbers["tensor_instructions"]) if numbers else ""
    run = f"{check['gpu']}, {verdict.run}" if check else NEVER
    error = f"{check['max_error']:.1e}" if check else ""
    seconds = f"{numbers['seconds']:.0f}" if numbers else ""
    kernel = (f"`{verdict.name}`", verdict.target, verdict.compiled)
    resources = (numbers.get("registers", ""), numbers.get("smem_bytes", ""), spills, seconds, instructions)
    return _cells((*kernel, *resources, run, check.get("problems", ""), error))


def _cells(values: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def _word(row: Mapping[str, Any], key: str) -> str:
    if not row:
        return NEVER
    return CURRENT if row["source_key"] == key else STALE


def _checks(project: Project) -> dict[str, list[dict[str, Any]]]:
    """Rows of the GPU records by kernel, newest first; only of those that passed."""
    from tilewright.build import records  # noqa: PLC0415

    found = [records.read(path) for path in sorted((project.root / RUN).glob("*.json"))]
    found.sort(key=lambda record: str(record["date"]), reverse=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        for row in record["kernels"]:
            if row["passed"]:
                rows.setdefault(row["name"], []).append({**row, "gpu": record["gpu"]})
    return rows


def _include(project: Project) -> Path:
    from tilewright import paths  # noqa: PLC0415

    own = project.root / "runtime" / "include"
    return own if own.is_dir() else paths.include_dir()
